"""Rows of narrow elements of which each lane of a warp takes a few: by fewer lanes, with 16 bytes each at once, and
more rows a warp. Both texts are played; that neighbours are taken then changes no more than which lane has which
element."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import not_written, proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import SIZES, constants
from kscope.fixes.given.text import Span, Text, shape
from kscope.fixes.memory.blocked import WIDEST, Strided, aligned, converted, in_groups, on, strided
from kscope.fixes.memory.neighbours import SEVERAL
from kscope.fixes.rows.compared import Same, Side, same
from kscope.fixes.rows.function import Function, function
from kscope.fixes.rows.lanes import fewer
from kscope.fixes.rows.regrouped import WARP, alike, applied, grown
from kscope.fixes.rows.warps import rewritten
from kscope.model.contract.fixes import Condition, Fix, Proof

FEWEST = 4  # lanes of a row: fewer leave the loads of a warp in too many rows (judged)


class Fewer(Struct, frozen=True):
    """The text of so many lanes a row, and its loops."""

    text: str
    lanes: int
    loops: Strided
    played: Same


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    fn = function(setting)
    if fn is None or fn.call is not None or launch is None or "Several" in fn.code:
        return []
    if launch.block[1] * launch.block[2] > 1 or launch.block[0] % WARP:
        return []
    known = {**constants(setting.lines(fn.file)), **fn.values}
    one = strided(fn.code, launch.threads, known)
    parts = rows_of(one) if one is not None else 0
    if one is None or not parts or not _full(setting, parts) or not alike(fn, r"__shfl_"):
        return []
    text = Text(fn.file, fn.first, fn.code)
    found = [i for i in code.ran(code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store")))
             if any(on(setting, text, loop, i) for loop, _, _ in one.uses)]  # fmt: skip
    ran = aligned(setting, found, one.count * parts, one.stride) if found else 0
    new = made(fn, launch.block[0], parts, known) if ran else None
    return [_fix(asked, fn, new, found, ran)] if new is not None else []


def _full(setting: Setting, parts: int) -> bool:
    """Whether so many fewer blocks come out even and fill the chip."""
    launch, held = setting.launch, setting.occupancy()
    if launch is None or held is None or not setting.sms or launch.grid[0] % parts:
        return False
    return launch.blocks // parts * launch.warps >= held.warps * setting.sms


def rows_of(one: Strided) -> int:
    """How many lanes' elements make an access of the widest; 0 where that is no number of them, or too many."""
    size = one.count * max(SIZES[kind] for kind in one.arrays.values()) if one.arrays else WIDEST
    parts = WIDEST // size if size and WIDEST % size == 0 else 0
    return parts if one.stride == WARP and parts in (2, 4, 8) and WARP // parts >= FEWEST else 0


def made(fn: Function, block: int, parts: int, known: Mapping[str, int]) -> Fewer | None:
    """The text of so many rows a warp; None where it does anything else."""
    lanes = WARP // parts
    bigger = grown(fn, WARP, lanes)
    if bigger is None:
        return None
    spans: list[Span] = [*fewer(fn, lanes, known), *(x for x in bigger if x[0] < x[1])]
    for m in re.finditer(r"\bblockIdx\.x\s*\*\s*(\d+)", fn.code):  # rows of a block
        if int(m[1]) == block // WARP and m.start() > fn.opened:
            spans.append((*m.span(1), str(int(m[1]) * parts)))
    if len({a for a, _, _ in spans}) < len(spans):
        return None
    text = applied(fn.code, spans)
    loops = strided(text, block, known, lanes)
    old = [Side(fn.body, (parts * n, 1), (block, 1), fn.values) for n in (1, 2)]
    new = [Side(text[fn.opened :], (n, 1), (block, 1), fn.values) for n in (1, 2)]
    played = same(fn, old, new, known) if loops is not None and loops.count * lanes <= WARP * WIDEST else None
    if loops is None or played is None or played.ties or loops.stride != lanes:
        return None
    return Fewer(text, lanes, loops, played)


def _fix(asked: Asked, fn: Function, one: Fewer, found: list[int], ran: int) -> Fix:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    assert launch is not None
    group, parts = one.loops.count, WARP // one.lanes
    edits = rewritten(setting, fn, applied(one.text, in_groups(one.text, one.loops, group)))
    grid = (launch.grid[0] // parts, *launch.grid[1:])
    before = total(code.executed, found)
    return Fix(
        kind="neighbours",
        title=f"{one.lanes} lanes a row instead of a warp, {group} neighbours each of {', '.join(one.loops.arrays)} by "
              "one access",
        language="cuda",
        code=f"{SEVERAL}\n// launch: {setting.name}<<<{shape(grid)}, {shape(launch.block)}>>>(...);",
        edits=edits,
        parameters={"grid.x": grid[0], "elements": group, "lanes": one.lanes},
        conditions=[
            one.played.shown,
            proved("groups start at multiples of their size", "lanes", ran,
                   "addresses of all lanes less the lane's own part; cudaMalloc aligns to 256 bytes"),
            proved("the rows come out even", "launch", launch.grid, f"{launch.grid[0]} blocks by {parts}"),
            Condition(holds=f"every launch has a multiple of {parts} blocks, of {launch.block[0]} threads",
                      state="check", why="there is no test for a rest"),
            reads("loops use their counter for these places and for the thread's own values alone", "all its uses"),
            *converted(edits),
            *not_written(code, [i for i in found if code.classes[i].access == "load"]),
            Condition(holds="nothing asks which thread has which element: sums in another order, no scan",
                      state="check", why="other elements are a thread's own"),
        ],
        proof=[
            Proof(what="warp loads and stores", before=before, after=before / group, unit="inst",
                  how=f"{len(found)} accesses of 2 bytes a lane or less, by {group} elements of a lane at once"),
            Proof(what="lanes of a row", before=WARP, after=one.lanes, unit="lanes",
                  how=f"{group} elements each instead of {group // parts}"),
        ],
        price=None,  # measured: 1.29x, two conversions at once; how many instructions that saves is not known
    )  # fmt: skip
