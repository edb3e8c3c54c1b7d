"""A row of shared memory for each thread, indexed by data: laid out as columns, so that a lane has a bank of its own
whatever the data say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES, Value
from kscope.features.lanes.values import Lanes
from kscope.features.sass.columns import total as weight
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import RESERVED, Asked, Setting
from kscope.fixes.given.source import arrays, constants, evaluated
from kscope.fixes.given.text import Loop, Span, Text, kernel_text, loops, plain, spans_edited
from kscope.fixes.tile.bounded import most
from kscope.fixes.tile.layouts import HALVED, Pattern, cost
from kscope.fixes.tile.tiles import ALL, accesses
from kscope.model.contract.fixes import Fix, Proof
from kscope.model.program import Instruction

SEEDS = (1, 2, 3, 4)
ACROSS = """__device__ __forceinline__ unsigned across(unsigned i) {{  // {threads} rows of {row} as columns
  return i % {row} * {threads} + i / {row};
}}"""
_TEMPLATE = re.compile(r"template\s*<([^{}()]*)>")


class Columns(Struct, frozen=True):
    """Rows of `row` elements of `element` bytes become columns of `rows`."""

    row: int
    rows: int
    element: int

    def __call__(self, offset: int) -> int:
        i, byte = divmod(offset, self.element)
        return (i % self.row * self.rows + i // self.row) * self.element + byte

    def inverse(self, offset: int) -> int:
        i, byte = divmod(offset, self.element)
        return (i % self.rows * self.row + i // self.rows) * self.element + byte


class _Own(Struct, frozen=True):
    """`T* mine = array + t * row;`: names, the span of the declaration, elements of a row, bytes of one, threads."""

    mine: str
    array: str
    t: str
    declared: tuple[int, int]
    layout: Columns
    fills: tuple[Loop, ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text = kernel_text(setting)
    if text is None or launch is None or launch.block[1] * launch.block[2] > 1 or launch.threads % LANES:
        return []
    own = _own(setting, text, launch.threads)
    if own is None or re.search(r"\bacross\b", text.code):
        return []
    found = [i for i in accesses(code) if not any(_on(setting, text, loop, i) for loop in own.fills)]
    rows = _rows(setting, found, own.layout)
    if rows is None:
        return []
    private, patterns = rows
    before, after = (_wavefronts(setting, patterns, layout) for layout in (None, own.layout))
    edits = spans_edited(setting, text, _spans(text.code, own, _alone(setting, text, own)))
    if not private or _worse(patterns, own.layout) or not edits or after > HALVED * before:
        return []
    lanes = LANES * len(SEEDS) * len(private)
    size = own.layout.row * own.layout.rows * own.layout.element
    back = sum(own.layout.inverse(own.layout(o)) == o for o in range(0, size, own.layout.element))
    least = _wavefronts(setting, patterns, own.layout, fewest=True)
    return [
        Fix(
            kind="swizzle",
            title=f"{own.array} as columns: element after element of all threads' rows",
            language="cuda",
            code=ACROSS.format(row=own.layout.row, threads=own.layout.rows)
            if any("[across(" in e.becomes for e in edits) else "",
            edits=edits,
            parameters={"row": own.layout.row, "rows": own.layout.rows},
            conditions=[
                proved("each lane stays in its own row, whatever is loaded", "lanes", lanes,
                       "addresses with loaded words invented lane by lane"),
                shown(back == size // own.layout.element, "one to one", "values", back, "each element there and back"),
                reads(f"all uses of {own.array} are written out here", f"by its name and by {own.mine}"),
            ],
            proof=[
                Proof(what=f"wavefronts of the {len(found)} accesses of {own.array}", before=round(before, 2),
                      after=round(after, 2), unit="wavefronts",
                      how=f"32 lanes with {len(SEEDS)} sets of invented data; {least:,.0f} is the least"),
            ],
            costs=["no shared memory; a shift and an addition in each address"],
            price=asked.finding.estimate if after <= least else None,
        )
    ]  # fmt: skip


def _worse(patterns: dict[int, list[Pattern]], layout: Columns) -> bool:
    """Whether an access needs more wavefronts than now."""
    return any(sum(cost(p, layout)[0] for p in ps) > sum(cost(p)[0] for p in ps) for ps in patterns.values())


def _own(setting: Setting, text: Text, threads: int) -> _Own | None:
    """The one pointer of the kernel into the one shared array, a row for each thread."""
    code, lines = text.code, setting.lines(text.file)
    shared = [a for a in arrays(lines) if text.first <= a.line < text.first + code.count("\n") + 1]
    known = constants(lines) | arguments(setting, lines, text)
    if len(shared) != 1 or len(shared[0].dims) != 1:
        return None
    (array,) = shared
    found = list(re.finditer(rf"\b\w+\s*\*\s*(\w+)\s*=\s*{array.name}\s*\+\s*(\w+)\s*\*\s*(\w+)\s*;", code))
    if len(found) != 1 or plain(found[0][2], code) != "threadIdx.x":
        return None
    (one,) = found
    row = evaluated(one[3], known)
    if row is None or row < 2 or row % 2 or array.numbers[0] != row * threads or array.element != 4:
        return None
    bare = re.findall(rf"(?<![\w.])(?<!->){one[1]}\b(?!\s*\[)|(?<![\w.])(?<!->){array.name}\b(?!\s*\[)", code)
    if len(bare) != 2:  # the two names of the declaration; anywhere else the pointer may go elsewhere
        return None
    if not _plain(code, (one[1], array.name)):
        return None
    layout = Columns(row, threads, array.element)
    fills = tuple(x for x in loops(code) if _fills(code, x, array.name, row * threads, threads, known))
    return _Own(one[1], array.name, one[2], one.span(), layout, fills)


def _plain(code: str, names: Sequence[str]) -> bool:
    """Whether all uses of arrays are of their elements, by indices that can be put elsewhere."""
    for name in names:
        for use in re.finditer(rf"(?<![\w.])(?<!->){name}\s*\[", code):
            before = code[: use.start()].rstrip()
            address = before.endswith("&") and re.search(r"[\w\])&]\s*&$", before) is None
            if address and re.search(r"\batomic\w+\s*\(\s*&$", before) is None:
                return False  # it may lead on to other elements
            if re.match(r"[^][]*\]", code[use.end() :]) is None:
                return False
    return True


def arguments(setting: Setting, lines: Sequence[str], text: Text) -> dict[str, int]:
    """Numbers of the kernel's template, by name."""
    head = _TEMPLATE.search("\n".join([*lines[max(0, text.first - 2) : text.first]]))
    given = re.search(r"<([^<>]*)>", setting.instance)
    if head is None or given is None:
        return {}
    names = [p.split("=")[0].split()[-1] for p in head[1].split(",") if p.split()]
    values = [re.sub(r"\(\w+(?: \w+)*\)", "", v).strip() for v in given[1].split(",")]
    return {n: int(v) for n, v in zip(names, values, strict=False) if v.isdigit()}


def _fills(code: str, loop: Loop, name: str, size: int, threads: int, known: dict[str, int]) -> bool:
    """A loop that gives every element of an array the same number: in any order."""
    body = code[slice(*loop.body)].strip().strip("{} \n")
    right = re.fullmatch(rf"{name}\s*\[\s*{loop.name}\s*\]\s*=\s*(-?[\w.]+)\s*;", body)
    if right is None or not (right[1].lstrip("-")[0] in ".0123456789" or right[1] in known):
        return False
    step = plain(loop.step.partition("+=")[2], code)
    every = step == "blockDim.x" or evaluated(step, known) == threads
    return every and evaluated(loop.end, known) == size and plain(loop.start, code) == "threadIdx.x"


def _on(setting: Setting, text: Text, loop: Loop, index: int) -> bool:
    first, last = (text.first + text.code[:at].count("\n") for at in (loop.span[0], loop.body[1]))
    return any(first <= p.number <= last for p in places(setting, [index]))


class Filled(Lanes):
    """Lanes whose loaded words are any 32 bits, one for each lane."""

    def _same_everywhere(self, index: int, ins: Instruction, register: int) -> Value:
        if self._code.classes[index].access == "load" and self._code.classes[index].space != "shared":
            return tuple(
                sum(self._given.number(("byte", n, index, register, lane)) % 256 << 8 * n for n in range(4))
                for lane in range(LANES)
            )
        return super()._same_everywhere(index, ins, register)


def excess(setting: Setting) -> float:
    """Wavefronts too many, an execution of each access of shared memory, with invented data."""
    code, block = setting.code, setting.block
    out = 0.0
    for i in accesses(code):
        rows = [Filled(code, Assumption(seed, block)).address(i) for seed in SEEDS]
        if None in rows or code.classes[i].bytes not in (1, 2, 4, 8, 16):
            continue
        counts = [cost(Pattern(_column(row), code.classes[i].bytes, ALL)) for row in rows]
        out += sum(needed - least for needed, least in counts) / len(counts)
    return out


def _rows(
    setting: Setting, found: Sequence[int], layout: Columns
) -> tuple[list[int], dict[int, list[Pattern]]] | None:
    """(accesses in whose addresses each lane stays in its own row, all patterns); None where an address is unknown or
    outside of the array."""
    code = setting.code
    worlds = [Filled(code, Assumption(seed, setting.block)) for seed in SEEDS]
    read = {i: [world.address(i) for world in worlds] for i in found}
    if not read or any(v is None or code.classes[i].bytes != layout.element for i, vs in read.items() for v in vs):
        return None
    for start in (0, RESERVED):
        rows = {i: [_column(v) for v in values] for i, values in read.items()}
        placed = _placed(rows, [world.warp for world in worlds], start, layout)
        if placed is not None and placed[0]:
            return placed
    return None


def _column(value: Value) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value or 0,) * LANES


def _placed(
    read: dict[int, list[tuple[int, ...]]], warps: Sequence[int], start: int, layout: Columns
) -> tuple[list[int], dict[int, list[Pattern]]] | None:
    """The same of an array that begins at `start`, the only one that is declared."""
    size, row = layout.row * layout.rows * layout.element, layout.row * layout.element
    patterns: dict[int, list[Pattern]] = {}
    private = []
    for i, addresses in read.items():
        offsets = [tuple(a - start for a in address) for address in addresses]
        if any(not 0 <= o < size for one in offsets for o in one):
            return None
        patterns[i] = [Pattern(one, layout.element, ALL) for one in offsets]
        pairs = zip(offsets, warps, strict=True)
        private += [i] if all(o // row == warp * LANES + n for one, warp in pairs for n, o in enumerate(one)) else []
    return private, patterns


def _wavefronts(
    setting: Setting, patterns: dict[int, list[Pattern]], layout: Columns | None, *, fewest: bool = False
) -> float:
    """Of all executions, the mean over the invented data."""
    return sum(
        sum(cost(p, layout)[fewest] for p in ps) / len(ps) * weight(setting.code.executed, [i])
        for i, ps in patterns.items()
    )  # fmt: skip


def _alone(setting: Setting, text: Text, own: _Own) -> bool:
    """Whether each index of the own pointer stays in its lane's row, whatever it is made of: then no division is needed
    to tell the column."""
    code, lines = text.code, setting.lines(text.file)
    known = constants(lines) | arguments(setting, lines, text)
    used = re.findall(rf"(?<![\w.])(?<!->){own.mine}\s*\[([^][]*)\]", code)
    ends = [most(index, known, code) for index in used]
    return bool(ends) and all(end is not None and end < own.layout.row for end in ends)


def _spans(code: str, own: _Own, alone: bool) -> list[Span]:
    out: list[Span] = [(*own.declared, "")]
    kept = [x.body for x in own.fills]
    declared = re.search(rf"__shared__[^;]*\b{own.array}\s*\[[^;]*;", code)
    row = own.layout.row
    for name in (own.array, own.mine):
        for use in re.finditer(rf"(?<![\w.])(?<!->){name}\s*\[([^][]*)\]", code):
            inside = any(a <= use.start() < b for a, b in kept)
            if inside or (declared is not None and declared.start() <= use.start() < declared.end()):
                continue
            index = use[1].strip() if name == own.array else f"{own.t} * {row} + ({use[1].strip()})"
            place = f"across({index})"
            if alone and name == own.mine:
                place = f"({use[1].strip()}) * {own.layout.rows} + {own.t}"
            out.append((use.start(), use.end(), f"{own.array}[{place}]"))
    return out
