"""A layout of shared memory as source: the lines that change, and the function that they call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.fixes.given.rewrite import calls, vector
from kscope.fixes.given.source import Array, Use, body, edited, uses
from kscope.fixes.tile.handed import kept
from kscope.fixes.tile.layouts import Layout, Padding, Swizzle
from kscope.fixes.tile.tiles import Tile, width
from kscope.model.contract.fixes import Condition, Edit

if TYPE_CHECKING:
    from kscope.fixes.given.setting import Setting
    from kscope.fixes.tile.placed import Placed

MOST = 0.75  # of the reads of matrix rows, that call a function which makes their addresses (judged)
Changes = dict[int, list[tuple[int, int, str]]]


class Written(Struct, frozen=True):
    """Functions to add, lines to change, and what is left to check."""

    helper: str = ""
    edits: list[Edit] = []
    conditions: list[Condition] = []


def written(setting: Setting, placed: Sequence[Placed]) -> Written:
    """The change as edits where all arrays are declared and indexed in text that is at hand, as functions of byte
    offsets elsewhere."""
    helpers: list[str] = []
    changes: dict[str, Changes] = {}
    conditions: list[Condition] = []
    for one in placed:
        done = [_edits(setting, one, array) for array in one.arrays]
        file = one.file
        if not done or any(d is None for d in done):
            helper, condition, file, mine = _by_bytes(setting, one)
            done, conditions = [(helper, mine)], [*conditions, condition]
        for helper, mine in (d for d in done if d is not None):
            for line, spans in mine.items():
                changes.setdefault(file, {}).setdefault(line, []).extend(spans)
            if helper and helper not in helpers:
                helpers.append(helper)
    edits = [e for name, mine in changes.items() for e in edited(name, setting.lines(name), mine)]
    return Written("\n".join(helpers), edits, conditions)


def merged(setting: Setting, tiles: Sequence[Tile], array: Array | None) -> str | None:
    """The name of an access that is wider than an element although its line names no vector type."""
    for tile in tiles:
        for i in tile.patterns:
            size, rows = width(setting.code, i)
            _, line, lines = setting.text(i)
            if array is None or rows or size <= array.element or setting.code[i].opcode not in ("LDS", "STS"):
                continue
            text = lines[line - 1] if 0 < line <= len(lines) else ""
            if array.name + "[" not in text:  # said to be of the line that uses the value: any of the array's may be
                text = " ".join(lines[u.line - 1] for u in uses(lines, body(lines, array.line), array.name))
            if not vector(text):
                return setting.code[i].name
    return None


def _edits(setting: Setting, one: Placed, array: Array) -> tuple[str, Changes] | None:
    """(helper function, changes by line); None where a use of the array is anything but all its indices."""
    lines = setting.lines(one.file)
    found = uses(lines, body(lines, array.line), array.name)
    if not found or any(len(u.spans) != len(array.dims) for u in found):
        return None
    texts = [lines[u.line - 1][a:b] for u in found for a, b in u.spans]
    if any(array.name + "[" in t.replace(" ", "") for t in texts):
        return None  # an index that is itself of the array
    if not kept(lines, array, one.layout, found):
        return None
    if len(array.dims) > 1:
        if isinstance(one.layout, Padding):
            return _wider_row(lines, array, one.layout)
        return "", _exchanged(lines, array, one.layout, found)
    return _flat(lines, array, one.layout, found)


def _wider_row(lines: Sequence[str], array: Array, layout: Padding) -> tuple[str, Changes] | None:
    if layout.pad % array.element:
        return None
    count = layout.pad // array.element
    last = array.dims[-1]
    number = array.numbers[-1]
    text = str(number + count) if number is not None and last.isdigit() else f"{last} + {count}"
    text = f"({last}) + {count}" if re.search(r"[<>&|^?]", last) else text
    place = _dimension(lines[array.line - 1], array)
    return ("", {array.line: [(*place, text)]}) if place is not None else None


def _dimension(text: str, array: Array) -> tuple[int, int] | None:
    """Span of the last dimension in a declaration."""
    match = re.search(rf"\b{re.escape(array.name)}\s*(?=\[)", text)
    if match is None:
        return None
    at = match.end()
    for dim in array.dims:
        at = text.index("[", at) + 1
        start = text.index(dim, at)
        at = start + len(dim)
    return start, at


def _exchanged(lines: Sequence[str], array: Array, layout: Swizzle, found: Sequence[Use]) -> Changes:
    """`t[r][c]` becomes `t[r][(c) ^ (r >> shift & mask) * pieces]`; a pitch shorter than a row asks the column."""
    changes: Changes = {}
    inner = array.row is not None and layout.pitch < array.row
    for use in found:
        text = lines[use.line - 1]
        start, end = use.spans[-1]
        by = f"({text[start:end].strip()}) / {layout.pitch // array.element}" if inner else (
            f"({text[slice(*use.spans[-2])].strip()})"
        )
        changes.setdefault(use.line, []).append((start, start, "("))
        changes[use.line].append((end, end, f") ^ {_term(by, layout, array.element)}"))
    return changes


def _term(row: str, layout: Swizzle, element: int) -> str:
    """What is XORed to a column that counts elements."""
    shifted = f"{row} >> {layout.shift}" if layout.shift else row
    pieces = layout.chunk // element
    masked = f"({shifted} & {layout.mask})"
    return f"{masked} * {pieces}" if pieces > 1 else masked


def _flat(
    lines: Sequence[str], array: Array, layout: Layout, found: Sequence[Use]
) -> tuple[str, Changes] | None:
    """`s[i]` becomes `s[padded_s(i)]`, with the function that says where an element lies."""
    if layout.pitch % array.element:
        return None
    row = layout.pitch // array.element
    changes: Changes = {}
    if isinstance(layout, Padding):
        if layout.pad % array.element:
            return None
        name, pad = f"padded_{array.name}", layout.pad // array.element
        body_ = f"i + i / {row}" + (f" * {pad}" if pad > 1 else "")
        place = _dimension(lines[array.line - 1], array)
        if place is None:
            return None
        dim = array.dims[0]
        plain = array.numbers[0]
        size = str(plain + -(-plain // row) * pad) if plain is not None and dim.isdigit() else (
            f"({dim}) + (({dim}) + {row - 1}) / {row} * {pad}"
        )
        changes[array.line] = [(*place, size)]
    else:
        name = f"swizzled_{array.name}"
        body_ = f"i ^ {_term(f'i / {row}', layout, array.element)}"
    for use in found:
        (span,) = use.spans
        changes.setdefault(use.line, []).extend([(span[0], span[0], f"{name}("), (span[1], span[1], ")")])
    helper = f"__host__ __device__ constexpr unsigned {name}(unsigned i) {{ return {body_}; }}"
    return helper, changes


def _by_bytes(setting: Setting, one: Placed) -> tuple[str, Condition, str, Changes]:
    """A function of byte offsets, for code whose array is not declared where it can be seen; and the change of the one
    function that makes all its addresses, if there is one."""
    layout = one.layout
    row = f"offset / {layout.pitch}"
    if isinstance(layout, Padding):
        name, text = "padded", f"offset + {row} * {layout.pad}"
    else:
        name, text = "swizzled", f"offset ^ {_term(row, layout, 1)}"
    places = sorted({ins.line for t in one.tiles for i in t.patterns if (ins := setting.code[i]).line is not None})
    where = f"lines {', '.join(map(str, places))}" if places else f"{sum(len(t.patterns) for t in one.tiles)} accesses"
    head = f"// bytes, from the tile's first{f' (0x{one.label} of shared memory)' if one.label else ''}"
    name += f"_{one.label}" if one.label else ""
    helper = f"__host__ __device__ constexpr unsigned {name}(unsigned offset) {{ return {text}; }}  {head}"
    condition = Condition(holds="every address of the tile goes through it", state="check", why=f"accessed at {where}")
    found = _maker(setting, one) if isinstance(layout, Swizzle) else None
    if found is None:
        return helper, condition, "", {}
    file, line, (start, end), maker = found
    why = f"{maker}() makes the addresses at {where}, in bytes"
    changes: Changes = {line: [(start, start, f"{name}("), (end, end, ")")]}
    return helper, Condition(holds=condition.holds, state="check", why=why), file, changes


def _maker(setting: Setting, one: Placed) -> tuple[str, int, tuple[int, int], str] | None:
    """The function (file, line and span of what it returns, name) that most reads of matrix rows call, and that counts
    in bytes: its text has the length of the row as a number."""
    called: dict[tuple[str, str], int] = {}
    every = 0
    for tile in one.tiles:
        for i in tile.patterns:
            ins = setting.code[i]
            if ins.opcode not in ("LDSM", "STSM"):
                continue
            every += 1
            for name, line in {(ins.file, ins.line), *((s.file, s.line) for s in ins.inlined)}:
                lines = setting.lines(name) if name is not None else ()
                if name is not None and line is not None and 0 < line <= len(lines):
                    for maker in calls(lines[line - 1]):
                        called[name, maker] = called.get((name, maker), 0) + 1
    for (file, maker), times in sorted(called.items(), key=lambda row: -row[1]):
        if times < MOST * every:
            break
        lines = setting.lines(file)
        head = re.compile(rf"\b{maker}\s*(?:\([^)]*\)\s*\{{|=\s*\[[^]]*\]\s*\()")
        start = next((n for n, text in enumerate(lines) if head.search(text)), None)
        for n in range(start, min(start + 4, len(lines))) if start is not None else ():
            match = re.search(r"\breturn\s+([^;]+);", lines[n])
            if match is not None and str(one.layout.pitch) in match[1]:
                return file, n + 1, match.span(1), maker
            if match is not None:
                break
    return None
