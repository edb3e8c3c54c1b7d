"""Sections, symbols and relocations as pyelftools has them, of every cubin of ours."""

from __future__ import annotations

import io
import lzma
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from kscope.parsers.elf_sections import NOBITS, REL, RELA, RELOCATABLE, SYMTAB, read_elf, relocations, symbols

CUBINS = sorted((Path(__file__).parents[2] / "fixtures" / "sass").glob("*.cubin.xz"))
SMALLEST = min(CUBINS, key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.name.removesuffix(".cubin.xz"))
def test_equals_pyelftools(path: Path) -> None:
    data = lzma.decompress(path.read_bytes())
    theirs, ours = ELFFile(io.BytesIO(data)), read_elf(data)
    assert ours.flags == theirs["e_flags"] and (ours.kind == RELOCATABLE) == (theirs["e_type"] == "ET_REL")
    sections = list(theirs.iter_sections())
    assert [(s.name, s.offset, s.size, s.link, s.info) for s in ours.sections] == [
        (s.name, s["sh_offset"], s["sh_size"], s["sh_link"], s["sh_info"]) for s in sections
    ]
    kept = [(mine, other) for mine, other in zip(ours.sections, sections, strict=True) if mine.kind != NOBITS]
    assert len(kept) > 5 and all(mine.data == other.data() for mine, other in kept)
    for mine, other in zip(ours.sections, sections, strict=True):
        if mine.kind == SYMTAB:
            wanted = [(s.name, s["st_value"], s["st_shndx"]) for s in other.iter_symbols()]
            found = [(s.name, s.value, s.section) for s in symbols(ours.sections, mine)]
            assert found == [(name, value, at if isinstance(at, int) else None) for name, value, at in wanted]
        elif mine.kind in (REL, RELA):
            assert [(r.offset, r.symbol, r.addend) for r in relocations(mine)] == [
                (r["r_offset"], r["r_info_sym"], r["r_addend"] if mine.kind == RELA else 0)
                for r in other.iter_relocations()
            ]


@given(st.binary(max_size=80) | st.tuples(st.integers(0, 63), st.integers(0, 255), st.integers(0, 9000)))
def test_damage(change: bytes | tuple[int, int, int]) -> None:
    """Whatever the header says: read, or refused with a reason."""
    whole = bytearray(lzma.decompress(SMALLEST.read_bytes()))
    if isinstance(change, bytes):
        whole[: len(change)] = change
    else:
        at, byte, cut = change
        whole[at] = byte
        del whole[len(whole) - cut % len(whole) :]
    try:
        read_elf(bytes(whole))
    except ValueError as error:
        assert str(error)


def test_more_sections_than_the_header_can_say() -> None:
    """Then the first section's header has their number and that of the names."""
    whole = bytearray(lzma.decompress(SMALLEST.read_bytes()))
    plain = read_elf(bytes(whole))
    (at,) = struct.unpack_from("<Q", whole, 0x28)
    count, names = struct.unpack_from("<HH", whole, 0x3C)
    struct.pack_into("<HH", whole, 0x3C, 0, 0xFFFF)
    struct.pack_into("<QI", whole, at + 32, count, names)
    moved = read_elf(bytes(whole))
    assert [s.name for s in moved.sections] == [s.name for s in plain.sections]
