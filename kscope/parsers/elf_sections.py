"""Sections, symbols and relocations of a 64-bit little-endian ELF file (System V ABI, chapters 4 and 5): what a cubin
needs of it. Plain structures, read at once: a general library takes longer to import than all this takes to read."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from msgspec import Struct

SYMTAB, RELA, NOBITS, REL = 2, 4, 8, 9  # sh_type
RELOCATABLE = 1  # e_type
FUNCTION = 2  # type of a symbol
_COMPRESSED = 0x800  # in sh_flags
_RESERVED = 0xFF00  # section numbers from here on are none
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_REL, _RELA = struct.Struct("<QQ"), struct.Struct("<QQq")


class Section(Struct, frozen=True):
    """`kind` is sh_type, `offset` and `size` say where it lies in the `file`."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    file: bytes

    @property
    def data(self) -> bytes:
        """Empty where the file holds none, or holds it compressed (no compiler of NVIDIA's does)."""
        if self.kind == NOBITS or self.flags & _COMPRESSED:
            return b""
        return self.file[self.offset : self.offset + self.size]


class Symbol(Struct, frozen=True):
    """`section` is None for a symbol that is in none of the file."""

    name: str
    kind: int
    section: int | None
    value: int


class Relocation(Struct, frozen=True):
    """Where it is to be filled in, with which symbol (by number), and what is to be added (0 where the place says)."""

    offset: int
    symbol: int
    addend: int


class Elf(Struct, frozen=True):
    """The header's type and flags, and all sections."""

    kind: int
    flags: int
    sections: tuple[Section, ...]


def read_elf(data: bytes) -> Elf:
    """Raises ValueError where the file is not whole, or not of this kind; the text says why."""
    if len(data) < _HEADER.size:
        raise ValueError("shorter than an ELF header")
    ident, kind, _, _, _, _, at, flags, _, _, _, size, count, names = _HEADER.unpack_from(data)
    if ident[4:6] != b"\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    if not at:
        raise ValueError("the ELF image has no sections (truncated?)")
    if size != _SECTION.size:
        raise ValueError(f"section headers of {size} bytes")
    if at + size > len(data):
        raise ValueError(f"the ELF image is truncated: {len(data)} of {at + size} bytes or more")
    if not count or names == 0xFFFF:  # numbers that do not fit in the header are in the first section's
        first = _SECTION.unpack_from(data, at)
        count, names = count or first[5], first[6] if names == 0xFFFF else names
    table = data[at : at + count * size]
    if len(table) != count * size:
        raise ValueError(f"the ELF image is truncated: {len(data)} of {at + count * size} bytes")
    rows = list(_SECTION.iter_unpack(table))
    last = max((row[4] + row[5] for row in rows if row[1] != NOBITS), default=0)
    if last > len(data):
        raise ValueError(f"the ELF image is truncated: {len(data)} of {last} bytes")
    strings = data[rows[names][4] : rows[names][4] + rows[names][5]] if names < len(rows) else b""
    return Elf(kind, flags, tuple(
        Section(_string(strings, name), type_, bits, offset, length, link, info, data)
        for name, type_, bits, _, offset, length, link, info, _, _ in rows
    ))  # fmt: skip


def symbols(sections: Sequence[Section], table: Section) -> list[Symbol]:
    """The symbols of a table, by number."""
    strings = sections[table.link].data
    whole = len(table.data) // _SYMBOL.size * _SYMBOL.size
    return [
        Symbol(_string(strings, name), info & 15, at if 0 < at < min(_RESERVED, len(sections)) else None, value)
        for name, info, _, at, value, _ in _SYMBOL.iter_unpack(table.data[:whole])
    ]


def relocations(section: Section) -> list[Relocation]:
    """Those of a REL or RELA section."""
    form = _RELA if section.kind == RELA else _REL
    rows = form.iter_unpack(section.data[: len(section.data) // form.size * form.size])
    return [Relocation(row[0], row[1] >> 32, row[2] if len(row) > 2 else 0) for row in rows]


def _string(table: bytes, at: int) -> str:
    end = table.find(b"\0", at)
    return table[at : end if end >= 0 else len(table)].decode("utf-8", "replace")
