"""Sums over the neighbours along a row: several results a thread, whose values are loaded once, by one wide access."""

from __future__ import annotations

from collections.abc import Mapping

from kscope.features.lanes.semantics import LANES
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import not_written, proved
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import Text, by_line, shape, spans_edited
from kscope.fixes.packed.taps import Taps, plainly, taps, written
from kscope.fixes.rows.compared import Same, Side, both
from kscope.fixes.rows.function import Function, function
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

SEVERAL = "template <class T, int N> struct alignas(sizeof(T) * N) Several { T at[N]; };"
WAVES = 2  # of blocks that must be left, so that the last one is not half of the time (judged)
DRAWN = ("several", "signed", "few")
LARGEST = 16384  # threads of a launch that is played whole (judged)


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, fn, held = asked.setting, asked.setting.launch, function(asked.setting), asked.setting.occupancy()
    if fn is None or launch is None or held is None or fn.call is not None or fn.values or launch.block[2] > 1:
        return []
    known = constants(setting.lines(fn.file))
    one = taps(fn.code, fn.pointers, known)
    if one is None or launch.block[0] % one.count or launch.grid[0] % one.count:
        return []
    if launch.threads % LANES or launch.blocks // one.count < WAVES * held.blocks * setting.sms:
        return []
    alike = _alike(setting, fn, one, known)
    new = written(one, (launch.block[0], launch.block[1]), played=False)
    spans = by_line(fn.code, (one.span[0], one.span[1] + 1, new))
    edits = spans_edited(setting, Text(fn.file, fn.first, fn.code), spans)
    return [_fix(asked, fn, one, alike, edits)] if alike is not None and edits else []


def _fix(asked: Asked, fn: Function, one: Taps, alike: Same, edits: list[Edit]) -> Fix:
    setting, launch = asked.setting, asked.setting.launch
    assert launch is not None
    k, code = one.count, setting.code
    found = code.ran(code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store")))
    loads = [i for i in found if code.classes[i].access == "load"]
    before, grid = total(code.executed, found), (launch.grid[0] // k, *launch.grid[1:])
    long = _lengths(setting, fn, one, constants(setting.lines(fn.file)))
    verb = "are multiples" if len(long) > 1 else "is a multiple"
    lengths = Condition(holds=f"{' and '.join(long)} {verb} of {k}", state="check",
                        why="groups start at multiples of their size then, as where it was played")  # fmt: skip
    finite = Condition(holds="weights are finite", state="check",
                       why="for what is outside, zero times the weight is added")  # fmt: skip
    given = f"{shape(grid)}, {shape(launch.block)}"
    return Fix(
        kind="neighbours",
        title=f"{k} neighbouring results a thread: a row's values loaded once, {k} of them by one access",
        language="cuda",
        code=f"{SEVERAL}\n// launch: {setting.name}<<<{given}>>>(...), {k} results a thread",
        edits=edits,
        parameters={"elements": k, "grid.x": grid[0]},
        conditions=[
            alike.shown,
            proved("the blocks come out even", "launch", launch.grid[:1], f"{launch.grid[0]} is a multiple of {k}"),
            *not_written(code, loads),
            Condition(holds=f"every launch has a multiple of {k} blocks of {shape(launch.block)} threads along x",
                      state="check", why="as this one has"),
            Condition(holds=f"{one.array} and {one.out} start at multiples of 16", state="assumed",
                      why="cudaMalloc aligns to 256 bytes"),
            *([lengths] if long else []),
            *([finite] if one.test else []),
        ],
        proof=[
            Proof(what="warp loads and stores", before=before, after=before / k, unit="inst",
                  how=f"as many a thread as for one result, {one.taps} of them for each row that its {k} results see"),
        ],
        costs=[f"{2 * k + one.taps} registers a thread", f"{launch.blocks // k} blocks are left"],
        price=asked.finding.estimate,
    )  # fmt: skip


def _lengths(setting: Setting, fn: Function, one: Taps, known: Mapping[str, int]) -> list[str]:
    """Numbers of the launch that have to be multiples of a group: with one more the play comes to something else."""
    return [name for name in fn.numbers if _alike(setting, fn, one, known, more=name) is None]


def _alike(setting: Setting, fn: Function, one: Taps, known: Mapping[str, int], *, more: str = "") -> Same | None:
    """Both texts played, also with all the blocks along x where they are few; None where a result is another one. more:
    a number that is one more than a multiple of a group."""
    launch = setting.launch
    assert launch is not None
    block, k = (launch.block[0], launch.block[1]), one.count
    old, new = plainly(fn.body), plainly(written(one, block, played=True))
    grids = [(k, min(2, launch.grid[1])), (2 * k, 1)]
    grids += [(launch.grid[0], 1)] if not more and launch.grid[0] * launch.threads <= LARGEST else []
    compared, sizes, shared = 0, 0, 0
    for along, up in grids:
        for times in (k, 2 * k) if fn.numbers else (k,):
            values = {name: launch.block[0] * times + (name == more) for name in fn.numbers}
            sides = Side(old, (along, up), block, values), Side(new, (along // k, up), block, values)
            for drawn in DRAWN:
                found = both(fn, sides, 0, drawn, known)
                if found is not None and not found[0]:
                    return None
                if found is not None:
                    compared, sizes, shared = compared + found[1], sizes + (drawn == DRAWN[0]), found[2]
    return Same(compared, sizes, False, False, shared) if sizes > 1 and compared else None
