"""Faults of .ncu-rep: messages of Protocol Buffers taken apart along one path, changed, and put together again with the
lengths right, so that the native reader gets to see them."""

from __future__ import annotations

import struct
from random import Random

from tools.fuzz.mutators import raw

Field = tuple[int, int, int | bytes]
"""Number, wire type, value: an integer for types 0, 1 and 5, bytes for 2."""
_PAYLOAD = 5  # of a block's header: its payload's size
_TEXTS = tuple(name.encode("utf-8", "surrogatepass") for name in raw.NAMES)


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def fields(data: bytes) -> list[Field] | None:
    """The fields of a message; None for bytes that are none."""
    out: list[Field] = []
    at = 0
    try:
        while at < len(data):
            key, at = _read(data, at)
            number, wire = key >> 3, key & 7
            if number == 0:
                return None
            if wire == 0:
                value, at = _read(data, at)
                out.append((number, wire, value))
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
                out.append((number, wire, int.from_bytes(data[at : at + size], "little")))
                at += size
            elif wire == 2:
                size, at = _read(data, at)
                out.append((number, wire, data[at : at + size]))
                at += size
            else:
                return None
    except IndexError:
        return None
    return out if at == len(data) else None


def joined(message: list[Field]) -> bytes:
    out = []
    for number, wire, value in message:
        out.append(varint(number << 3 | wire))
        if isinstance(value, bytes):
            out += [varint(len(value)), value]
        elif wire == 0:
            out.append(varint(value))
        else:
            size = 8 if wire == 1 else 4
            out.append((value % (1 << 8 * size)).to_bytes(size, "little"))
    return b"".join(out)


def mutate(rng: Random, data: bytes) -> bytes:
    if rng.random() < 0.1:
        return raw.mutate(rng, data)
    try:
        head, blocks = _container(data)
    except (struct.error, IndexError, ValueError):
        return raw.mutate(rng, data)
    for _ in range(raw.often(rng)):
        if not blocks or rng.random() < 0.08:
            head = _message(rng, head)
        elif rng.random() < 0.06:
            at = rng.randrange(len(blocks))
            blocks[at : at + 1] = rng.choice(([], [blocks[at]] * 2, [rng.choice(blocks)]))
        else:
            at = rng.randrange(len(blocks))
            header, payload = blocks[at]
            if rng.random() < 0.1:
                header = _message(rng, header)
            else:
                payload = _message(rng, payload)
            blocks[at] = header, payload
    right = rng.random() < 0.95
    out = [b"NVR\0", struct.pack("<I", len(head)), head]
    for header, payload in blocks:
        header = _sized(header, len(payload)) if right else header
        out += [struct.pack("<I", len(header)), header, payload]
    return b"".join(out)


def _container(data: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The file's header, and (header, payload) of its blocks. Raises ValueError and others for what is none."""
    at = 8 + struct.unpack_from("<I", data, 4)[0]
    head, blocks = data[8:at], []
    while at + 4 <= len(data):
        size = struct.unpack_from("<I", data, at)[0]
        header = data[at + 4 : at + 4 + size]
        length = next(value for number, _, value in fields(header) or () if number == _PAYLOAD)
        if not isinstance(length, int) or length > len(data):
            raise ValueError("no block")
        at += 4 + size
        blocks.append((header, data[at : at + length]))
        at += length
    return head, blocks


def _sized(header: bytes, size: int) -> bytes:
    found = fields(header)
    if found is None:
        return header
    return joined([(n, w, size if n == _PAYLOAD and w == 0 else value) for n, w, value in found])


def _message(rng: Random, data: bytes, depth: int = 0) -> bytes:
    """The message with one field, deep down mostly, changed."""
    message = fields(data)
    if not message or depth > 12:
        return _bytes(rng, data)
    at = rng.randrange(len(message))
    if rng.random() < 0.5:  # a kind of field first, so that the rare ones come as often
        number = rng.choice(sorted({n for n, _, _ in message}))
        at = rng.choice([i for i, (n, _, _) in enumerate(message) if n == number])
    number, wire, value = message[at]
    if isinstance(value, bytes) and value and rng.random() < 0.85:
        message[at] = number, wire, _message(rng, value, depth + 1)
        return joined(message)
    match rng.randrange(8):
        case 0:
            del message[at]
        case 1:
            message[at:at] = [message[at]] * rng.choice((1, 1, 2, 200))
        case 2:
            message[at] = rng.choice(message)
        case 3:
            message[at] = rng.randrange(1, 40), wire, value
        case 4:
            other = rng.randrange(len(message))
            message[at], message[other] = message[other], message[at]
        case _:
            message[at] = number, wire, _bytes(rng, value) if isinstance(value, bytes) else _number(rng, value)
    return joined(message)


def _bytes(rng: Random, value: bytes) -> bytes:
    return rng.choice((b"", rng.choice(_TEXTS), value[: len(value) // 2], value * 2, raw.mutate(rng, value)))


def _number(rng: Random, value: int) -> int:
    return rng.choice((raw.integer(rng), value + 1, value - 1, -value, value * 1000, 0))


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError
