"""What a report tells before anything of it is decoded: the ELF images that it embeds, the function of each result.
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
_IMAGE, _MANGLED = 4, 5  # fields of a source, of a result


def target(data: bytes) -> tuple[int, int]:
    """(sm, ABI version) from an ELF header: the number sits elsewhere in e_flags from CUDA 13.0 on."""
    flags = int.from_bytes(data[48:52], "little")
    osabi = data[7]
    if osabi == ABI_8:
        return (flags >> 8) & 0xFF, 8
    return flags & 0xFF, data[8]


def result_names(report: str) -> list[str]:
    """The mangled name of the function that each result is of, in file order, "" where it has none; [] where the
    container does not read as expected. A hint: what a result is of, NVIDIA's reader says."""
    return [name for name, _ in results(report)]


def results(report: str) -> list[tuple[str, int]]:
    """(mangled name, bytes) of each result, in file order; [] where the container does not read as expected. A payload
    with results is u32 length + protobuf message, as often as there are results; field 5 is the name."""
    read: list[tuple[str, int]] = []
    try:
        with open(report, "rb") as f:
            found = [b for b in ncu_container.blocks(f, os.fstat(f.fileno()).st_size) if b.results]
            # mapped, since names are a sliver of it: in the reader's process, whose end is one line about one report
            data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        for block in found:
            for message in _messages(data[block.payload : block.end]):
                name = next((value for number, value in _fields(message) if number == _MANGLED), b"")
                read.append((bytes(name).decode("utf-8"), len(message)))
    except (OSError, ValueError, IndexError, struct.error, ncu_container.Damage):
        return []
    return read


def embedded_images(report: str) -> dict[bytes, memoryview]:
    """The distinct ELF images in a .ncu-rep by their hash; {} where the container does not read as expected.

    A block without results is a table of sources: u32 length + protobuf message, again and again, whose field 4 is
    the image. Seen so in reports of 2022.2 and 2025.3.
    """
    images: dict[bytes, memoryview] = {}
    try:
        with open(report, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            found = [b for b in ncu_container.blocks(f, size) if not b.results and b.end > b.payload]
            for block in found:  # read, not mapped: a file that is cut short meanwhile would end the process
                f.seek(block.payload)
                for image in _images(memoryview(f.read(block.end - block.payload))):
                    images[blake2b(image, digest_size=20).digest()] = image
    except (OSError, ValueError, IndexError, struct.error, ncu_container.Damage):
        return {}
    return images


def _images(payload: memoryview) -> list[memoryview]:
    fields = (field for message in _messages(payload) for field in _fields(message))
    return [value for number, value in fields if number == _IMAGE and bytes(value[:4]) == b"\x7fELF"]


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
