"""Faults of machine code in ELF files: headers, sections, symbols, .nv.info, line tables, instructions; of fatbins the
headers of their entries."""

from __future__ import annotations

import struct
from random import Random

from tools.fuzz.mutators import raw

_FATBIN = b"\x50\xed\x55\xba"
_SECTION = 64  # bytes of a section header


def mutate(rng: Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(raw.often(rng)):
        if data.startswith(b"!<arch>") or (rng.random() < 0.5 and _FATBIN in data):
            _in_fatbin(rng, out)
        elif out[:4] == b"\x7fELF" and len(out) > 64:
            _in_elf(rng, out)
        else:
            out = bytearray(raw.mutate(rng, bytes(out)))
    return raw.mutate(rng, bytes(out)) if rng.random() < 0.1 else bytes(out)


def _in_fatbin(rng: Random, out: bytearray) -> None:
    places = []
    at = out.find(_FATBIN)
    while at >= 0 and len(places) < 16:
        places.append(at)
        at = out.find(_FATBIN, at + 4)
    if not places:
        return
    at = rng.choice(places) + rng.randrange(0, 96)
    size = rng.choice((1, 2, 4, 8))
    if at + size <= len(out):
        out[at : at + size] = (raw.integer(rng) % (1 << 8 * size)).to_bytes(size, "little")


def _in_elf(rng: Random, out: bytearray) -> None:
    if rng.random() < 0.12:
        at = rng.choice((4, 5, 7, 16, 18, 24, 32, 40, 48, 52, 54, 56, 58, 60, 62))
        out[at : at + 2] = struct.pack("<H", raw.integer(rng) & 0xFFFF)
        return
    table, = struct.unpack_from("<Q", out, 40)
    count, = struct.unpack_from("<H", out, 60)
    if table + count * _SECTION > len(out) or not count:
        return
    header = table + _SECTION * rng.randrange(count)
    offset, size = struct.unpack_from("<QQ", out, header + 24)
    if rng.random() < 0.25 or not size or offset + size > len(out):
        at, wide = rng.choice(((0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)))
        out[header + at : header + at + wide] = (raw.integer(rng) % (1 << 8 * wide)).to_bytes(wide, "little")
        return
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = offset + rng.randrange(size)
        wide = min(rng.choice((1, 1, 2, 4, 8)), offset + size - at)
        if rng.random() < 0.4:
            out[at] ^= 1 << rng.randrange(8)
        else:
            out[at : at + wide] = (raw.integer(rng) % (1 << 8 * wide)).to_bytes(wide, "little")
