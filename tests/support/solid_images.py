"""ELF images as streams: sections of a kind stand together, machine code with machine code. Of a file of its own, as
compiled code is, and of those that reports hold."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tests.support.streams import Shared, Streams

MAGIC = b"\x7fELF"
KINDS = (".text", ".nv.info", ".nv.constant", ".rel", ".nv_debug", ".debug", ".nv.", ".")
"""Beginnings of names of sections whose bytes look alike; for those of KEPT the whole name is the kind."""
KEPT = (".debug", ".nv_debug", ".strtab", ".shstrtab", ".symtab", ".nv.merc", ".nv.capmerc", ".nv.callgraph", ".note")
BETWEEN = "-"  # headers, and what lies between sections
_NOBITS = 8


class Writer:
    """Takes one image apart."""

    def __init__(self, streams: Streams, shared: Shared) -> None:
        self.streams = streams

    def file(self, data: bytes) -> None:
        put(self.streams, data)


class Reader:
    """Puts one image together."""

    def __init__(self, streams: Streams, shared: Shared) -> None:
        self.streams = streams

    def file(self) -> bytes:
        return get(self.streams)


def put(streams: Streams, data: bytes) -> None:
    at = 0
    for name, start, size in sorted(sections(data), key=lambda s: s[1]):
        if size and start >= at:
            _part(streams, BETWEEN, data[at:start])
            _part(streams, _kind(name), data[start : start + size])
            at = start + size
    _part(streams, BETWEEN, data[at:])
    streams.put_bytes("elf", b"")


def get(streams: Streams) -> bytes:
    out = []
    while kind := streams.bytes("elf").decode():
        out.append(streams.bytes(f"elf {kind}"))
    return b"".join(out)


def sections(image: bytes) -> Iterator[tuple[str, int, int]]:
    """Name, offset and size of each section that has bytes in an image; none where it is not one."""
    if image[:4] != MAGIC or len(image) < 64:
        return
    (at,) = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<3H", image, 58)
    if size < 48 or at + size * count > len(image) or names >= count:
        return
    rows = [struct.unpack_from("<IIQQQQ", image, at + i * size) for i in range(count)]
    for name, kind, _, _, start, length in rows:
        begin = rows[names][4] + name
        end = image.find(b"\0", begin)
        if kind != _NOBITS and end >= 0 and start + length <= len(image):
            yield image[begin:end].decode(errors="replace"), start, length


def _part(streams: Streams, kind: str, data: bytes) -> None:
    if data:
        streams.put_bytes("elf", kind.encode())
        streams.put_bytes(f"elf {kind}", data)


def _kind(name: str) -> str:
    whole = next((kept for kept in KEPT if name.startswith(kept)), None)
    if whole is not None:
        return name if whole in (".debug", ".nv_debug") else whole
    return next((kind for kind in KINDS if name.startswith(kind)), "other")
