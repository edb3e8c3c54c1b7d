"""The .ncu-rep container: is the file whole? NVIDIA's reader does not say: cut files open as empty or partial reports.

Layout, little-endian: `NVR\\0`, u32 length of the file header, file header; then blocks up to the end of the file,
each a u32 length of its block header, the block header, and a payload of the size that the block header names.
Headers are Protocol Buffers messages. Field 5 of a block header is the payload's size in bytes, field 2 the number of
results in it; a payload without results is a table of strings and sources.
"""

from __future__ import annotations

import re
import struct

TYPE_CHECKING = False  # the reader's process imports this and has no other use for the typing module (9 ms)
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

MAGIC = b"NVR\0"
_RESULTS, _PAYLOAD = 2, 5
_SESSION, _TIME = 3, 2
_FIRST = 1_500_000_000  # 2017, before there was an Nsight Compute
_VERSION = re.compile(rb"Nsight Compute[^\n]{0,40}?(20\d\d\.\d+(?:\.\d+)*)", re.DOTALL)
_HEADER_LIMIT = 256 << 20  # bytes; block headers hold string tables of some 100 KB


class Damage(Exception):
    """The container breaks off or contradicts itself; `cut` tells the two apart."""

    def __init__(self, what: str, *, cut: bool) -> None:
        super().__init__(what)
        self.cut = cut


class Block:
    """Where a block lies: byte offsets in the file, and the number of results in its payload."""

    def __init__(self, start: int, payload: int, end: int, results: int) -> None:
        self.start, self.payload, self.end, self.results = start, payload, end, results


def header_end(file: IO[bytes], size: int) -> int:
    """Offset of the first block. Raises Damage."""
    file.seek(0)
    head = file.read(8)
    if len(head) < 8:
        raise Damage("it ends within the file header", cut=True)
    end = 8 + int(struct.unpack_from("<I", head, 4)[0])
    if end > size:
        raise Damage("it ends within the file header", cut=True)
    return end


def blocks(file: IO[bytes], size: int) -> Iterator[Block]:
    """The blocks of a report of `size` bytes, in order. Raises Damage where the next one is not whole."""
    start = header_end(file, size)
    while start < size:
        file.seek(start)
        length = file.read(4)
        if not any(length) and _only_zeros(file):  # padding, which the native reader tolerates too
            return
        if len(length) < 4:
            raise Damage(f"it ends within a block at byte {start} of {size}", cut=True)
        count = int(struct.unpack("<I", length)[0])
        payload = start + 4 + count
        if payload > size:
            raise Damage(f"it ends within a block at byte {start} of {size}", cut=True)
        if count > _HEADER_LIMIT:
            raise Damage(f"the block at byte {start} is not one", cut=False)
        try:
            results, bytes_ = _sizes(file.read(count))
        except (IndexError, ValueError):
            raise Damage(f"the block at byte {start} is not one", cut=False) from None
        end = payload + bytes_
        if end > size:
            raise Damage(f"{end - size} of its {end} bytes or more are missing", cut=True)
        yield Block(start, payload, end, results)
        start = end


def check(file: IO[bytes], size: int) -> None:
    """Walk all blocks (reads headers only). Raises Damage."""
    if not list(blocks(file, size)):
        raise Damage("it ends after the file header", cut=True)


def tool_version(file: IO[bytes], size: int) -> str | None:
    """The version of Nsight Compute that recorded a report, e.g. 2025.3.1.0: its session blocks name it in text."""
    for block in blocks(file, size):
        if block.end == block.payload:
            file.seek(block.start)
            found = _VERSION.search(file.read(block.end - block.start))
            if found:
                return found.group(1).decode()
    return None


def recorded_at(file: IO[bytes], size: int) -> int | None:
    """When a report was recorded, in seconds since 1970 UTC: field 2 of the session, field 3 of the first block's
    header (seen so in reports of 2022.2 to 2026.3). None where the container does not say it."""
    start = header_end(file, size)
    file.seek(start)
    length = file.read(4)
    if len(length) < 4 or (count := int(struct.unpack("<I", length)[0])) > _HEADER_LIMIT:
        return None
    try:
        session = _field(file.read(count), _SESSION)
        seconds = _field(session, _TIME) if isinstance(session, bytes) else None
    except (IndexError, ValueError):
        return None
    return seconds if isinstance(seconds, int) and _FIRST <= seconds < 1 << 33 else None


def _field(message: bytes, wanted: int) -> int | bytes | None:
    """The first value of a field of a message that is a number or bytes. Raises ValueError or IndexError."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        value: int | bytes
        if tag & 7 == 0:
            value, at = varint(message, at)
        elif tag & 7 == 2:
            length, at = varint(message, at)
            value, at = message[at : at + length], at + length
        else:
            at += {1: 8, 5: 4}[tag & 7] if tag & 7 in (1, 5) else len(message)
            continue
        if tag >> 3 == wanted:
            return value
    return None


def _only_zeros(file: IO[bytes]) -> bool:
    while part := file.read(1 << 16):
        if part.count(0) != len(part):
            return False
    return True


def _sizes(message: bytes) -> tuple[int, int]:
    """Results and payload bytes of a block header. Raises ValueError or IndexError for what is no message."""
    results = payload = at = 0
    while at < len(message):
        tag, at = varint(message, at)
        field, wire = tag >> 3, tag & 7
        if field == 0:
            raise ValueError(tag)
        if wire == 0:
            value, at = varint(message, at)
            if field == _RESULTS:
                results = value
            elif field == _PAYLOAD:
                payload = value
        elif wire == 2:
            length, at = varint(message, at)
            at += length
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise ValueError(tag)
    if at != len(message):
        raise ValueError(at)
    return results, payload


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """(value, offset behind it) of a protobuf number. Raises ValueError, IndexError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("varint")
