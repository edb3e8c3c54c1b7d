"""Take imported source files out of a .ncu-rep, keeping only those under given folders.

Captures with --import-source embed every file that the line table names, among them headers of the CUDA toolkit,
which are NVIDIA's and not ours to pass on. The report keeps its SASS, line table and counters.

    python tools/strip_sources.py IN.ncu-rep OUT.ncu-rep --keep /corpus/
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Iterator
from pathlib import Path

MAGIC = b"NVR\0"
FILES = 8  # field of a source message: the imported files, each {1: {1: name, 2: text}}
PAYLOAD = 5  # field of a block header: payload bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--keep", nargs="+", required=True, help="path prefixes whose files stay")
    args = parser.parse_args()
    args.out.write_bytes(strip(args.report.read_bytes(), tuple(args.keep)))


def strip(data: bytes, keep: tuple[str, ...]) -> bytes:
    """The report without the source files outside `keep`. Raises ValueError if it does not read as a report."""
    if data[:4] != MAGIC:
        raise ValueError("not a .ncu-rep")
    at = 8 + u32(data, 4)
    out = bytearray(data[:at])
    while at < len(data):
        size = u32(data, at)
        header = data[at + 4 : at + 4 + size]
        numbers = {n: v for n, v, _ in fields(header) if isinstance(v, int)}
        start = at + 4 + size
        at = start + numbers.get(PAYLOAD, 0)
        payload = data[start:at]
        if numbers.get(1):  # a block of sources
            payload = b"".join(framed(source(m, keep)) for m in messages(payload))
            header = replaced_payload(header, len(payload))
        out += framed(header) + payload
    return bytes(out)


def replaced_payload(header: bytes, size: int) -> bytes:
    """A block's header that says so many bytes of payload."""
    return b"".join(key(PAYLOAD, 0) + varint(size) if n == PAYLOAD else raw for n, _, raw in fields(header))


def source(message: bytes, keep: tuple[str, ...]) -> bytes:
    parts = []
    for number, value, raw in fields(message):
        if number == FILES and isinstance(value, bytes):
            inner = b"".join(entry for _, v, entry in fields(value) if isinstance(v, bytes) and wanted(v, keep))
            raw = key(FILES, 2) + varint(len(inner)) + inner
        parts.append(raw)
    return b"".join(parts)


def wanted(entry: bytes, keep: tuple[str, ...]) -> bool:
    name = next((v for n, v, _ in fields(entry) if n == 1 and isinstance(v, bytes)), b"")
    return name.decode(errors="replace").startswith(keep)


def messages(payload: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(payload):
        size = u32(payload, at)
        yield payload[at + 4 : at + 4 + size]
        at += 4 + size


def framed(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message


def u32(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def key(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def fields(message: bytes) -> Iterator[tuple[int, int | bytes, bytes]]:
    """(number, value, raw bytes) of each top-level field of a protobuf message."""
    at = 0
    while at < len(message):
        begin = at
        tag, at = read_varint(message, at)
        kind = tag & 7
        value: int | bytes
        if kind == 0:
            value, at = read_varint(message, at)
        elif kind == 2:
            size, at = read_varint(message, at)
            value, at = message[at : at + size], at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = message[at : at + size], at + size
        else:
            raise ValueError(f"wire type {kind}")
        yield tag >> 3, value, message[begin:at]


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


if __name__ == "__main__":
    main()
