"""Source lines of machine code with the call sites they were inlined through, from a cubin's .debug_line.

A DWARF line table (DWARF 2 to 4, section 6.2; CUDA writes 2, and a unit of version 5 is left out: its lines are not
known) with one opcode of NVIDIA's: extended 0x90, two LEB128 numbers. The
first names the row of the call site in the same sequence (counted from 1, 0: not inlined), the second the place in
.debug_str of the inlined function's name. Compared with `nvdisasm -gi` on the fixtures. Read directly: no public
library knows the opcode, and pyelftools leaves its operands out.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping

from msgspec import Struct

from kscope.model.program import Site

_INLINED = 0x90
_MOST_SITES = 64  # of a chain: a table that is not damaged has a dozen at most


class Row(Struct, frozen=True):
    """From `address` on, instructions come from `place`, through the call sites `inlined`, innermost first."""

    address: int
    place: Site
    inlined: tuple[Site, ...]


class Table(Struct, frozen=True):
    """Rows of one code section in ascending order of address."""

    rows: tuple[Row, ...]
    addresses: tuple[int, ...]

    def at(self, address: int) -> Row | None:
        found = bisect_right(self.addresses, address) - 1
        return self.rows[found] if found >= 0 else None


def read_lines(data: bytes, strings: bytes, sections: Mapping[int, tuple[str, int]]) -> dict[str, Table]:
    """Line tables by code section. `strings` is .debug_str, `sections` says for the place of a relocated address in
    `data` which section it is in and what to add to it. A damaged table ends at the damage."""
    found: dict[str, list[Row]] = {}
    at = 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        try:
            for section, rows in _unit(data, at, min(len(data), at + 4 + size), strings, sections):
                found.setdefault(section, []).extend(rows)
        except (IndexError, struct.error, KeyError):
            pass
        at += 4 + size
    tables = {}
    for section, rows in found.items():
        last = {row.address: row for row in rows}  # the last row of an address is the one that holds
        ordered = tuple(last[address] for address in sorted(last))
        tables[section] = Table(ordered, tuple(row.address for row in ordered))
    return tables


class _Reader:
    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def u8(self) -> int:
        if self.at >= self.end:
            raise IndexError
        self.at += 1
        return self.data[self.at - 1]

    def fixed(self, size: int) -> int:
        self.at += size
        if self.at > self.end:
            raise IndexError
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def uleb(self) -> int:
        result = shift = 0
        while True:
            byte = self.u8()
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    def sleb(self) -> int:
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def text(self) -> str:
        stop = self.data.index(b"\0", self.at, self.end)
        found = self.data[self.at : stop].decode("utf-8", "replace")
        self.at = stop + 1
        return found


def _unit(
    data: bytes, start: int, end: int, strings: bytes, sections: Mapping[int, tuple[str, int]]
) -> Iterator[tuple[str, list[Row]]]:
    r = _Reader(data, start + 4, end)
    version = r.fixed(2)
    if not 2 <= version <= 4:
        raise KeyError(version)
    program = r.fixed(4) + r.at
    least = r.u8()
    if version >= 4:
        r.u8()
    r.u8()
    base, span, first = struct.unpack("b", bytes([r.u8()]))[0], r.u8(), r.u8()
    lengths = [r.u8() for _ in range(first - 1)]
    files = _files(r)
    r.at = program
    while r.at < end:
        yield _sequence(r, files, strings, sections, (least, base, span, first, lengths))


def _files(r: _Reader) -> list[str]:
    """Names by number; number 0 is unused."""
    folders = [""]
    while name := r.text():
        folders.append(name)
    files = ["?"]
    while name := r.text():
        folder = folders[min(r.uleb(), len(folders) - 1)]
        r.uleb(), r.uleb()
        files.append(f"{folder}/{name}" if folder and not name.startswith("/") else name)
    return files


def _sequence(
    r: _Reader, files: list[str], strings: bytes, sections: Mapping[int, tuple[str, int]],
    header: tuple[int, int, int, int, list[int]],
) -> tuple[str, list[Row]]:  # fmt: skip
    least, base, span, first, lengths = header
    section, address, file, line = "", 0, 1, 1
    context, function = 0, 0
    places: list[tuple[Site, int]] = []  # of each row: its place and the row that calls it
    rows: list[Row] = []

    def note() -> None:
        name = _string(strings, function) if context else None
        places.append((Site(files[file] if file < len(files) else "?", line, name), context))
        rows.append(Row(address, places[-1][0], _chain(places, context)))

    while True:
        code = r.u8()
        if code >= first:
            address += (code - first) // span * least
            line += base + (code - first) % span
            note()
        elif code == 0:
            size = r.uleb()
            after = r.at + size
            kind = r.u8()
            if kind == 1:
                r.at = after
                return section, rows
            if kind == 2:
                section, add = sections.get(r.at, ("", 0))
                address = r.fixed(size - 1) + add
            elif kind == _INLINED:
                context, function = r.uleb(), r.uleb()
            r.at = after
        elif code == 1:
            note()
        elif code == 2:
            address += r.uleb() * least
        elif code == 3:
            line += r.sleb()
        elif code == 4:
            file = r.uleb()
        elif code == 8:
            address += (255 - first) // span * least
        elif code == 9:
            address += r.fixed(2)
        else:
            for _ in range(lengths[code - 1]):
                r.uleb()


def _chain(places: list[tuple[Site, int]], context: int) -> tuple[Site, ...]:
    chain: list[Site] = []
    while 0 < context <= len(places) and len(chain) < _MOST_SITES:
        site, context = places[context - 1]
        chain.append(site)
    return tuple(chain)


def _string(strings: bytes, at: int) -> str | None:
    end = strings.find(b"\0", at)
    return strings[at:end].decode("utf-8", "replace") if 0 <= at < end else None
