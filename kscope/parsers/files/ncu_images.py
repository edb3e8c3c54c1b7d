"""What a report tells before anything of it is decoded: its ELF images, and the function and image of each result.
Reads the container alone (parsers/ncu.md); imports next to nothing, for the reader's process."""

from __future__ import annotations

import mmap
import os
import struct
from hashlib import blake2b

from kscope.parsers.files import ncu_container

TYPE_CHECKING = False  # see kscope.parsers.ncu.worker
if TYPE_CHECKING:
    from collections.abc import Iterator

ABI_7, ABI_8 = 0x33, 0x41  # e_ident[EI_OSABI]: CUDA up to 12.x, from 13.0
_NUMBER, _IMAGE = 1, 4  # fields of a source
_MANGLED, _SOURCE = 5, 15  # fields of a result; the source's field 1 is its number
UNNUMBERED = -1
"""The number of a source where there is none: those in a report are not negative."""


def target(data: bytes) -> tuple[int, int]:
    """(sm, ABI version) from an ELF header: the number sits elsewhere in e_flags from CUDA 13.0 on."""
    flags = int.from_bytes(data[48:52], "little")
    osabi = data[7]
    if osabi == ABI_8:
        return (flags >> 8) & 0xFF, 8
    return flags & 0xFF, data[8]


def results(report: str) -> list[tuple[str, int, int]]:
    """(mangled name, bytes, number of its source) of each result, in file order; [] where the container does not read
    as expected. A payload with results is u32 length + protobuf message, as often as there are results; field 5 is the
    name, field 15 says which source it was made from. A hint: what a result is of, NVIDIA's reader says."""
    read: list[tuple[str, int, int]] = []
    try:
        with open(report, "rb") as f:
            found = [b for b in ncu_container.blocks(f, os.fstat(f.fileno()).st_size) if b.results]
            # mapped, since names are a sliver of it: in the reader's process, whose end is one line about one report
            data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        for block in found:
            for message in _messages(data[block.payload : block.end]):
                found_in = dict(_fields(message))
                name, source = found_in.get(_MANGLED, b""), found_in.get(_SOURCE, memoryview(b""))
                read.append((bytes(name).decode("utf-8"), len(message), _number(source)))
    except (OSError, ValueError, IndexError, struct.error, ncu_container.Damage):
        return []
    return read


def embedded_images(report: str) -> dict[bytes, memoryview]:
    """The distinct ELF images in a .ncu-rep by their hash; {} where the container does not read as expected."""
    return numbered_images(report)[0]


def numbered_images(report: str) -> tuple[dict[bytes, memoryview], dict[int, bytes]]:
    """The same, and the hash of the image by the number of its source; numbers that name several images left out, as
    in reports that were joined from several processes.

    A block without results is a table of sources: u32 length + protobuf message, again and again, whose field 4 is
    the image. Seen so in reports of 2022.2 and 2025.3; in 405 results of them the numbered image has the function.
    """
    images: dict[bytes, memoryview] = {}
    numbers: dict[int, set[bytes]] = {}
    try:
        with open(report, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            found = [b for b in ncu_container.blocks(f, size) if not b.results and b.end > b.payload]
            for block in found:  # read, not mapped: a file that is cut short meanwhile would end the process
                f.seek(block.payload)
                for message in _messages(memoryview(f.read(block.end - block.payload))):
                    image = dict(_fields(message)).get(_IMAGE, memoryview(b""))
                    if bytes(image[:4]) == b"\x7fELF":
                        key = blake2b(image, digest_size=20).digest()
                        images[key] = image
                        numbers.setdefault(_number(message), set()).add(key)
    except (OSError, ValueError, IndexError, struct.error, ncu_container.Damage):
        return {}, {}
    return images, {n: keys.pop() for n, keys in numbers.items() if len(keys) == 1 and n != UNNUMBERED}


def _number(source: memoryview) -> int:
    """Field 1 of a source, or of what points to one, which comes first; UNNUMBERED where it has none."""
    if not source or source[0] != _NUMBER << 3:
        return UNNUMBERED
    return ncu_container.varint(source, 1)[0]


def _messages(payload: memoryview) -> Iterator[memoryview]:
    at = 0
    while at + 4 <= len(payload):
        size = int(struct.unpack_from("<I", payload, at)[0])
        yield payload[at + 4 : at + 4 + size]
        at += 4 + size


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Top-level fields of a protobuf message that hold bytes."""
    at = 0
    while at < len(data):
        tag, at = ncu_container.varint(data, at)
        kind = tag & 7
        if kind == 0:
            _, at = ncu_container.varint(data, at)
            continue
        if kind == 2:
            size, at = ncu_container.varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        yield tag >> 3, data[at : at + size]
        at += size
