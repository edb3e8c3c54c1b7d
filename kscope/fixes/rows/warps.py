"""A row a block becomes a row a warp, or a part of one: rows that are shorter than a block's threads leave most of them
idle, and a barrier that a whole block waits for costs more than the row's work. Both texts are played."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct, structs

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.kinds import words
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Text, outside, shape, spans_edited
from kscope.fixes.rows.compared import Same, Side, same
from kscope.fixes.rows.function import Function, constants, function, sized
from kscope.fixes.rows.inlined import Callee, callees, inlined
from kscope.fixes.rows.loaded import few, lengths, row
from kscope.fixes.rows.own import in_registers
from kscope.fixes.rows.parts import in_parts
from kscope.fixes.rows.passes import passes
from kscope.fixes.rows.quads import FOUR
from kscope.fixes.rows.regrouped import WARP, applied, fors, kept, regrouped, renamed, rounds
from kscope.fixes.rows.syntax import tree
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

LEAST_BLOCK = 64  # threads of a block that has a row, of which a warp is a part
MOST_ROUNDS = 4  # of a block along a row: longer rows keep its lanes busy (judged)
OWN_ROUNDS = 2  # of a lane along a short row, that fewer lanes make instead of idling (judged)
MOST_PARTS = 16  # threads that a lane stands for (judged)
THREADS = (256, 128, 64)  # of a new block: several rows in it (judged)
KEPT = 0.5  # of the warps that an SM holds, that must be left where rows take more shared memory (judged)
OWN = 0.25  # of them, where a warp does what several did (judged)


class Changed(Struct, frozen=True):
    """The function's new text, the values of its template, lanes of a row and rows of a block. exact: no operation has
    another place, so that results are the same to the last bit. more: registers of a thread more. aligned: parameters
    through which a lane takes several neighbours; quads: by four in rounds. over: what it divides by once. most:
    elements of a row that its lanes have in registers; asked: arrays of such that are loaded only where needed."""

    text: str
    values: Mapping[str, int]
    lanes: int
    rows: int
    edits: Sequence[Edit]
    played: Same
    exact: bool
    more: int = 0
    aligned: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    quads: bool = False
    most: int = 0
    asked: tuple[str, ...] = ()

    @property
    def block(self) -> tuple[int, ...]:
        return (self.lanes, self.rows) if self.lanes > 1 else (self.rows,)


Way = Callable[[Setting, Function, int, int, int, Mapping[str, int]], Changed | None]
"""Makes a text for so many lanes a row, rows a block and threads a lane."""


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    if launch is None or launch.block[1] * launch.block[2] > 1 or launch.block[0] < LEAST_BLOCK or not setting.sms:
        return []
    if launch.block[0] % WARP or not setting.code.where(lambda ins, op: ins.opcode == "BAR"):
        return []
    fn = function(setting)
    fn = sized(fn, launch.block[0], launch.shared_dynamic) if fn is not None else None
    if fn is None:
        return []
    known, key = setting.code.found, (_changed, fn.code)  # played once, whatever rule asks
    if key not in known:
        known[key] = _changed(setting, fn)
    one: Changed | None = known[key]
    return [_fix(asked, fn, one)] if one is not None and _fits(setting, fn, one) else []


def _changed(setting: Setting, fn: Function) -> Changed | None:
    """The first of the new texts that makes the same: as few lanes as a short row needs, a warp, a warp whose lanes
    stand for several threads each."""
    assert setting.launch is not None
    block, known = setting.launch.block[0], constants(setting.lines(fn.file), fn.code)
    length, bytes_ = row(setting, fn, block, known)
    if not 0 < length <= MOST_ROUNDS * block:
        return None
    short, fewest = few(length / OWN_ROUNDS, bytes_), few(length / FOUR, bytes_ * FOUR)
    ways: list[tuple[Way, int, int]] = [(_wide, lanes, 1) for lanes in sorted({fewest, WARP})]
    ways += [(_held, lanes, 1) for lanes in sorted({short, WARP})]
    several: list[tuple[Way, int, int]] = [(_beside, WARP, block // WARP), (_held, WARP, block // WARP)]
    several = several if block // WARP <= MOST_PARTS else []
    spread: list[tuple[Way, int, int]] = [(_regrouped, lanes, 1) for lanes in sorted({short, WARP})]
    ways += spread + several if rounds(fn, block, {**known, **fn.values}) else several + spread
    for make, lanes, each in ways:
        rows = _rows(setting, lanes)
        found = make(setting, fn, lanes, rows, each, known) if rows else None
        if found is not None:
            return found
    rows = _rows(setting, WARP)
    whole = in_parts(fn, block, rows) if rows and block // WARP <= MOST_PARTS else None
    played = _same(setting, fn, whole, WARP, rows, fn.values, known) if whole is not None else None
    if whole is None or played is None or played.ties:
        return None
    return Changed(whole, fn.values, WARP, rows, rewritten(setting, fn, whole), played, exact=True)


def _regrouped(
    setting: Setting, fn: Function, lanes: int, rows: int, _: int, known: Mapping[str, int]
) -> Changed | None:  # fmt: skip
    """The text of lanes that meet in shared memory as the block's threads did."""
    assert setting.launch is not None
    block = setting.launch.block[0]
    spans = regrouped(fn, block, lanes, rows, known)
    if spans is None:
        return None
    values = {n: lanes if v == block else v for n, v in fn.values.items()}
    text, more = applied(fn.code, spans), max(kept(fn).values(), default=0) * (block // lanes - 1)
    edits = spans_edited(setting, Text(fn.file, fn.first, fn.code), spans) if fn.call is None else []
    played = _same(setting, fn, text, lanes, rows, values, known) if edits or fn.call is not None else None
    if played is None:
        return None
    return Changed(text, values, lanes, rows, edits, played, exact=False, more=more)


def _held(
    setting: Setting, fn: Function, lanes: int, rows: int, each: int, known: Mapping[str, int], *, wide: bool = False,
    beside: bool = False,
) -> Changed | None:  # fmt: skip
    """The text that keeps in registers what threads of the block had in shared memory."""
    assert setting.launch is not None
    called = _called(setting, fn)
    found = in_registers(fn, setting.launch.block[0], lanes, rows, each, known, called, wide=wide, beside=beside)
    if found is None:
        return None
    played = _same(setting, fn, found.text, lanes, rows, found.values, known)
    if played is None or (each > 1 and played.ties):
        return None
    one = Changed(found.text, found.values, lanes, rows, rewritten(setting, fn, found.text), played, found.exact,
                  found.more, found.aligned, found.over, wide)  # fmt: skip
    return one if wide or each > 1 else _remembered(setting, fn, one, known)


def _remembered(setting: Setting, fn: Function, one: Changed, known: Mapping[str, int]) -> Changed:
    """The same with a row's elements in registers where lanes go along it several times, if that comes out the same and
    loads nothing else."""
    assert setting.launch is not None
    known = {**known, **fn.values}
    found = passes(fn, one.text, one.lanes, one.values, lengths(setting, fn, setting.launch.block[0], known))
    if found is None:
        return one
    played = _same(setting, fn, found.text, one.lanes, one.rows, one.values, known, besides=found.sizes(one.lanes))
    if played is None:
        return one
    edits = rewritten(setting, fn, found.text)
    return structs.replace(one, text=found.text, edits=edits, played=played, more=one.more + found.words,
                           most=found.most, asked=found.asked)  # fmt: skip


_wide, _beside = partial(_held, wide=True), partial(_held, beside=True)
"""Lanes that load four neighbours each; lanes that stand for neighbours."""


def _rows(setting: Setting, lanes: int) -> int:
    """Rows of a new block: as many threads as the old one has at most, which its bounds allow, and no rest. 0 where
    there are none, or too few lanes to fill the chip."""
    launch, held = setting.launch, setting.occupancy()
    if launch is None or held is None or launch.blocks * lanes < WARP * held.warps * setting.sms:
        return 0
    found = [t // lanes for t in THREADS if t <= launch.block[0] and launch.grid[0] % (t // lanes) == 0]
    return next((n for n in found if n > 1), 0)


def _called(setting: Setting, fn: Function) -> dict[str, Callee]:
    body = tree(fn.body)
    return callees(setting.lines(fn.file), body) if body is not None else {}


def _same(
    setting: Setting, fn: Function, text: str, lanes: int, rows: int, values: Mapping[str, int],
    known: Mapping[str, int], *, besides: Sequence[int] = (),
) -> Same | None:  # fmt: skip
    """besides: other lengths of a row, which load nothing that was not loaded."""
    assert setting.launch is not None
    block, called = setting.launch.block[0], _called(setting, fn)
    start = text.index("{", len(fn.code[: fn.opened].rstrip()))
    shaped = (lanes, rows) if lanes > 1 else (rows, 1)
    try:
        body, other = inlined(fn.body, called), inlined(text[start:], called)
    except Unplayable:
        return None
    old = [Side(body, (rows * n, 1), (block, 1), fn.values) for n in (1, 2)]
    new = [Side(other, (n, 1), shaped, values) for n in (1, 2)]
    return same(fn, old, new, known, besides=besides)


def _fits(setting: Setting, fn: Function, one: Changed) -> bool:
    """Whether an SM holds as many warps, but for what rows take in shared memory and in registers."""
    assert setting.launch is not None
    before = setting.occupancy()
    after = setting.occupancy(
        more_shared=4 * one.played.shared, registers=setting.launch.registers + one.more, threads=one.lanes * one.rows
    )
    return before is not None and after is not None and after.warps >= (
        OWN if one.exact and one.more else KEPT) * before.warps


def rewritten(setting: Setting, fn: Function, text: str) -> list[Edit]:
    """A function's lines by new ones: all of them where its first one was."""
    if fn.call is not None:
        return []
    lines, old, new = setting.lines(fn.file), fn.code.split("\n"), text.split("\n")
    last = lines[fn.first + len(old) - 2][len(old[-1]) :]
    edits = [Edit(file=fn.file, line=fn.first, was=lines[fn.first - 1], becomes="\n".join(new) + last)]
    rest = range(fn.first + 1, fn.first + len(old))
    return edits + [Edit(file=fn.file, line=n, was=lines[n - 1], becomes="") for n in rest]


def _fix(asked: Asked, fn: Function, one: Changed) -> Fix:
    setting, launch, code = asked.setting, asked.setting.launch, asked.setting.code
    assert launch is not None
    block, grid = launch.block[0], (launch.grid[0] // one.rows, *launch.grid[1:])
    values = f"<{', '.join(str(v) for v in one.values.values())}>" if one.values else ""
    own = values if fn.call is None else ""
    new, edits = f"{setting.name}{own}<<<{shape(grid)}, dim3({one.lanes}, {one.rows})>>>(...);", list(one.edits)
    if fn.call is not None:
        line, (start, end, _) = fn.call
        was = setting.lines(fn.file)[line - 1]
        edits = [Edit(file=fn.file, line=line, was=was, becomes=f"{was[:start]}{fn.name}_rows{values}{was[end:]}")]
        new = f"{renamed(one.text, fn.name, fn.name + '_rows')}\n// launch: {new}"
    barriers = code.ran(code.where(lambda ins, op: ins.opcode == "BAR"))
    passed = total(code.executed, barriers) / (launch.warps * launch.blocks)
    more = 4 * one.played.shared
    parameters: dict[str, int | float | str] = {"grid.x": grid[0], "block.x": one.lanes, "block.y": one.rows}
    parameters |= {"instance": values.strip("<>")} if own else {}
    return Fix(
        kind="lane_mapping",
        title=f"{one.lanes} lanes a row instead of {block} threads: {one.rows} rows a block, no barrier of a block",
        language="cuda",
        code=new,
        edits=edits,
        parameters=parameters,
        conditions=[*_conditions(asked, fn, one)],
        proof=[
            Proof(what="barriers that a warp passes", before=round(passed, 1), after=0, unit="barriers",
                  how=_met(one, len(barriers))),
            Proof(what="threads a row", before=block, after=one.lanes, unit="threads",
                  how=f"{launch.blocks} rows, as many as blocks were launched"),
        ],
        costs=[*([f"{more} bytes of shared memory a block more"] if more > 0 else []),
               *([f"rows of other than {one.most - one.lanes + 1} to {one.most} elements are loaded in each pass"]
                 if one.most else [])],
        price=asked.finding.estimate,
    )  # fmt: skip


def _met(one: Changed, barriers: int) -> str:
    if "__shfl_" in one.text:
        return f"what {barriers} barriers parted is in registers: {one.lanes} lanes hand it on by shuffles"
    return f"each of the {barriers} becomes __syncwarp(): {one.lanes} lanes wait for each other"


def _conditions(asked: Asked, fn: Function, one: Changed) -> list[Condition]:
    launch, times = asked.setting.launch, max(kept(fn).values(), default=0)
    assert launch is not None
    block = launch.block[0]
    out = [
        one.played.shown,
        proved("the rows come out even", "launch", launch.grid, f"{launch.grid[0]} blocks by {one.rows} rows each"),
        Condition(holds=f"every launch has blocks of {block} threads, a multiple of {one.rows} of them along x",
                  state="check", why="there is no test for a rest"),
    ]  # fmt: skip
    if one.over:
        why = f"elements are multiplied by 1 / {', 1 / '.join(one.over)}"
        holds = "the last place of a quotient does not matter, and no divisor is below 2^-126"
        out.append(Condition(holds=holds, state="check", why=why))
    if one.aligned:
        each = FOUR if one.quads else block // one.lanes
        bytes_ = each * max(words(fn.pointers[name])[1] for name in one.aligned)
        out.append(Condition(holds=f"{', '.join(one.aligned)} at multiples of {bytes_} bytes", state="check",
                             why=f"lanes take {each} neighbours at once"))  # fmt: skip
    if one.asked:
        why = "they are loaded at once, and were only where it was needed"
        holds = f"all elements of a row of {', '.join(one.asked)} are there"
        out.append(Condition(holds=holds, state="check", why=why))
    if one.played.ties:
        why = "lanes meet in another order: played on numbers that repeat, results differ"
        out.append(Condition(holds="of equal values either may be taken", state="check", why=why))
    heads = [(loop.start, loop.body[0]) for loop in fors(fn.code, fn.opened)]
    if not one.exact and re.search(r"\+=|\+\s*__shfl", outside(fn.code, heads) + one.text):
        out.append(Condition(holds="the order of the sums does not matter", state="check", why="it is another one"))
    if times and not one.exact:
        out.append(Condition(holds=f"registers hold {times * block // one.lanes} elements of a row without spills",
                             state="check", why="kscope fix --check on the new cubin"))  # fmt: skip
    return out
