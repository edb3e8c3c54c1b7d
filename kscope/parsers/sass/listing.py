"""SASS listings as text: the output of `nvdisasm` and of `cuobjdump -sass`, with or without -hex, -g, -gi, -plr.

Both print `/*0090*/ @!P0 BRA `(.L_x_0) ; /* 0x... */`, the encoding's high half on a line of its own. nvdisasm names
branch targets by labels, cuobjdump prints offsets; here all are offsets, as nvdisasm -json prints them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from kscope.model.program import Control, Site
from kscope.parsers.sass import control_fields

_CODE = re.compile(r"\s*/\*([0-9a-f]{4,8})\*/\s+([^;]*?)\s*(\(\*.*?\*\))?\s*;?\s*(?:/\* 0x([0-9a-f]{16}) \*/)?\s*(?://.*)?$")
_HIGH = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/\s*(?://.*)?$")
_SECTION = re.compile(r"\s*\.section\s+\.text\.([^\s,]+)")
_FUNCTION = re.compile(r"\s*Function : (\S+)")
_LABEL = re.compile(r"([.$\w@]+):\s*(?://.*)?$")
_TARGET = re.compile(r"\s*(?:\.target|code for|arch =)\s+(sm_\d{2,4}[af]?)")
_LINE = re.compile(r'\s*//## File "(.*?)", line (\d{1,9})\b(?: inlined at "(.*?)", line (\d{1,9})\b)?')
_OTHER_SECTION = re.compile(r"\s*\.section\s+(?!\.text\.)")
_BRANCHES = re.compile(r"BRANCH_TARGETS\s+([^\"*)]+)")
_NAMED = re.compile(r"`\(([^()]+)\)")
_LOCAL = re.compile(r"(\.L_[\w.$]+)(?:@srel)?")
_ENTRY = re.compile(r"\.other\s+(\S+?),.*STO_CUDA_ENTRY")


class Row(Struct):
    """One instruction as listed. `place` is its line in the sources, `inlined` the call sites, innermost first."""

    pc: int
    text: str
    control: Control | None = None
    place: Site | None = None
    inlined: tuple[Site, ...] = ()
    note: str = ""


class Listed(Struct):
    """One function of a listing. `labels` are offsets by name, `.L_x_1` and functions inside the section alike."""

    name: str
    arch: str
    rows: list[Row] = []
    labels: dict[str, int] = {}
    entry: bool = True

    @property
    def symbols(self) -> tuple[tuple[int, str], ...]:
        own = (self.name, f".text.{self.name}")
        found = [(pc, name) for name, pc in self.labels.items() if not name.startswith(".L") and name not in own]
        return tuple(sorted(found))


def parse_listing(lines: Iterable[str]) -> list[Listed]:
    """Every function of a listing; [] for text that is none. Never raises on odd lines: they are passed over."""
    reader = _Reader()
    for line in lines:
        reader.take(line)
    found = [function for function in reader.functions if function.rows]
    for function in found:
        function.entry = not reader.entries or function.name in reader.entries
        _resolve(function)
    return found


class _Reader:
    """Line after line of a listing: the functions so far, and what the lines above say of the next instruction."""

    def __init__(self) -> None:
        self.functions: list[Listed] = []
        self.entries: set[str] = set()
        self._current: Listed | None = None
        self._arch = ""
        self._labels: list[str] = []
        self._calls: list[tuple[Site, Site | None]] = []
        self._place: tuple[Site | None, tuple[Site, ...]] = None, ()

    def take(self, line: str) -> None:
        if match := _CODE.match(line):
            self._row(match)
        elif match := _HIGH.match(line):
            if self._current is not None and self._current.rows:
                self._current.rows[-1].control = control_fields.of_words(int(match[1], 16))
        elif match := _LINE.match(line):
            caller = Site(match[3], int(match[4])) if match[3] is not None else None
            self._calls.append((Site(match[1], int(match[2])), caller))
        elif match := _LABEL.match(line):
            self._labels.append(match[1])
        elif match := _SECTION.match(line) or _FUNCTION.match(line):
            self._current = Listed(match[1], self._arch, [], {})
            self._place, self._calls = (None, ()), []
            self.functions.append(self._current)
        elif match := _TARGET.match(line):
            # cuobjdump's `arch =` of a fatbin's entry is less exact than the `code for` that follows.
            self._arch = match[1]
        elif match := _ENTRY.search(line):
            self.entries.add(match[1])
        elif _OTHER_SECTION.match(line):
            self._current = None

    def _row(self, match: re.Match[str]) -> None:
        if self._current is None:
            return
        if self._calls:
            self._place = _chain(self._calls)
            self._calls = []
        row = Row(int(match[1], 16), match[2], None, *self._place, match[3] or "")
        for label in self._labels:
            self._current.labels.setdefault(label, row.pc)
        self._labels = []
        self._current.rows.append(row)


def _chain(lines: list[tuple[Site, Site | None]]) -> tuple[Site, tuple[Site, ...]]:
    """The place and its call sites from the lines above an instruction: `a inlined at b`, `b inlined at c`, `c`."""
    return lines[0][0], tuple(caller for _, caller in lines if caller is not None)


def _resolve(function: Listed) -> None:
    """Labels in the rows' text as offsets; names of functions stay, without the assembler's `( )."""
    labels = function.labels
    for row in function.rows:
        if "`" in row.text or ".L_" in row.text:
            text = _NAMED.sub(r"\1", row.text)
            row.text = _LOCAL.sub(lambda m: hex(labels[m[1]]) if m[1] in labels else m[0], text)


def branches(function: Listed) -> dict[int, tuple[int, ...]]:
    """Targets of indirect branches, which nvdisasm prints as a comment behind them."""
    found: dict[int, tuple[int, ...]] = {}
    for row in function.rows:
        if match := _BRANCHES.search(row.note):
            names = [name.strip() for name in match[1].split(",")]
            found[row.pc] = tuple(dict.fromkeys(function.labels[n] for n in names if n in function.labels))
    return found
