"""Faults of .ktrace files: the JSON head with its length right, warps' headers, records."""

from __future__ import annotations

import struct
from random import Random

from tools.fuzz.mutators import json_text, raw

_WARP = b"KSWP"


def mutate(rng: Random, data: bytes) -> bytes:
    if data[:8] != b"KSTRACE1" or len(data) < 16:
        return json_text.mutate(rng, data)  # Proton's
    size, warps = struct.unpack_from("<2I", data, 8)
    head, body = data[16 : 16 + size], bytearray(data[16 + size :])
    for _ in range(raw.often(rng)):
        if rng.random() < 0.15:
            head = json_text.mutate(rng, head)
        else:
            _in_body(rng, body)
    if rng.random() < 0.07:
        warps = rng.choice((0, 1, warps + 1, 0xFFFFFFFF, raw.integer(rng) & 0xFFFFFFFF))
    size = len(head) if rng.random() < 0.95 else raw.integer(rng) & 0xFFFFFFFF
    out = data[:8] + struct.pack("<2I", size, warps) + head + bytes(body)
    return raw.mutate(rng, out) if rng.random() < 0.05 else out


def _in_body(rng: Random, body: bytearray) -> None:
    warps = [i for i in range(0, len(body) - 64, 16) if body[i : i + 4] == _WARP]
    if not warps:
        return
    warp = rng.choice(warps)
    match rng.randrange(12):
        case 0 | 1:
            at = warp + 4 * rng.randrange(16)
            body[at : at + 4] = struct.pack("<I", raw.integer(rng) & 0xFFFFFFFF)
        case 2:
            end = min([w for w in warps if w > warp], default=len(body))
            body[warp:end] = rng.choice((b"", bytes(body[warp:end]) * 2))
        case 3:
            del body[rng.randrange(len(body)) :]
        case _:
            record = warp + 64 + 16 * rng.randrange(64) + 4 * rng.randrange(4)
            value = raw.integer(rng) & 0xFFFFFFFF
            if rng.random() < 0.5 and record + 4 <= len(body):  # of the tag: the kind in its upper bits, or the scope
                value = struct.unpack_from("<I", body, record)[0] ^ 1 << rng.randrange(32)
            if record + 4 <= len(body):
                body[record : record + 4] = struct.pack("<I", value)
