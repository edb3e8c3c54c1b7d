"""Counters that all blocks add to in global memory at places that nothing bounds: the first of them in shared memory,
summed up by each block, and those behind them in global memory as before."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from msgspec import Struct, structs

from kscope.fixes.atomics.reading import Kernel, kernel_of
from kscope.fixes.atomics.targets import lanes, outside
from kscope.fixes.given.conditions import not_written, reads, shown
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import hidden, shape, spans_edited
from kscope.fixes.tables.bounds import Counted, counted, numbers_of, over_grid
from kscope.fixes.tables.played import same
from kscope.fixes.tables.texts import Add, Rounds, added, of_template, reach, spans, turns
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

STATIC = 48 << 10  # bytes of shared memory that a block may declare (CUDA C++ Programming Guide)
LEAST = 256  # places of a table at least, where an index may say more: one for each value of a byte (judged)
MANY = 2  # adds of a block for each place of its table: clearing it and adding it up is less than they are (judged)
LARGE, REGISTERS = 1024, 40  # threads of a block, and registers that leave an SM two such blocks (of 65,536)
SIZE = 4  # bytes of a place
HOT = "lts__t_sectors.max"  # the finding's evidence that few places take most of the atomics


class Plan(Struct, frozen=True):
    """The launch as it will be, places of a table, and how the blocks go over those of the old launch. whole: whether
    the index says no others."""

    grid: tuple[int, ...]
    block: tuple[int, int, int]
    places: int
    rounds: Rounds
    blocks: int
    whole: bool = False


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, kernel = asked.setting, asked.setting.launch, kernel_of(asked.setting)
    hot = any(one.metric.startswith(HOT) for one in asked.finding.evidence)
    if kernel is None or launch is None or not setting.sms or not hot or launch.shared_dynamic:
        return []
    if hidden(kernel.body, kernel.lines):
        return []
    types, numbers = of_template(kernel, setting.instance)
    found, adds = added(kernel, types), lanes(setting, outside(setting))
    if not found or not turns(kernel):
        return []
    counts = counted(kernel, launch.block, launch.grid)
    plan = _planned(setting, kernel, found, counts, adds)
    if plan is None:
        return []
    played = same(kernel, setting.name, plan.rounds, launch.grid, (launch.block, plan.block),
                  (types, {**numbers_of(kernel), **numbers}), plan.places,
                  fewer=plan.grid != launch.grid)
    edits = spans_edited(setting, kernel.text, spans(kernel, found, plan.places, plan.rounds, counts))
    return [_fix(asked, found, plan, counts, edits, (played, adds))] if edits and played else []


def _fix(
    asked: Asked, found: list[Add], plan: Plan, counts: Counted | None, edits: list[Edit], measured: tuple[int, float]
) -> Fix:  # fmt: skip
    """measured: results that were compared, atomics of lanes."""
    setting, launch, (played, adds) = asked.setting, asked.setting.launch, measured
    assert launch is not None
    names = list(dict.fromkeys(one.name for one in found))
    listed, first = " and ".join(names), f"the first {plan.places:,} places"
    other = counts is not None and not (plan.rounds.workers or plan.rounds.once)
    grid = {f"grid.{a}": n for a, n, was in zip("xyz", plan.grid, launch.grid, strict=True) if n != was}
    block = {"block.x": plan.block[0]} if plan.block != launch.block else {}
    loads = setting.code.ran(
        setting.code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load")
    )
    after = plan.blocks * plan.places * len(names)
    return Fix(
        kind="aggregate",
        title=f"{first} of {listed} summed up in shared memory by each block, the others added to as before",
        language="cuda",
        code=f"{setting.name}<<<{shape(plan.grid)}, {shape(plan.block)}>>>(...);" if grid or block else "",
        edits=edits,
        parameters={"places": plan.places, **grid, **block},
        conditions=[
            shown(played > 0, "the results are the same, below the table's end and above it", "values", played,
                  "both versions played, every result compared; without either part they differ"),
            reads("what the atomics return is not used", "each is a statement"),
            reads(f"{listed}: named in the atomics alone", "nothing else in the kernel loads or stores it"),
            reads("all threads of a block get to the barriers", "whoever has nothing to do goes on to them"),
            *not_written(setting.code, loads),
            reads(f"every place is below {plan.places:,}", "a mask or a byte says it") if plan.whole else
            Condition(holds=f"most places are below {plan.places:,}", state="check",
                      why="those above are added to in global memory: the same result, and less gain"),
            *_counting(found, larger=plan.block != launch.block),
            *(_covered(counts, plan) if counts is not None and other else []),
        ],
        proof=[
            Proof(what="atomics on global memory", before=adds, after=min(after, adds), unit="atomics",
                  how=f"of all lanes; at most {plan.places:,} of each of {plan.blocks:,} blocks, if all places are "
                      "in the tables")
        ],
        costs=[f"{plan.places * SIZE * len(names):,} bytes of shared memory a block, two barriers",
               *([f"the blocks from {plan.rounds.workers} on leave at once"] if plan.rounds.workers else [])],
        # Blocks that leave at once take their time to come, which no counter says.
        price=None if plan.rounds.workers else asked.finding.estimate,
    )  # fmt: skip


def _counting(found: list[Add], *, larger: bool) -> Iterator[Condition]:
    kinds = {one.kind for one in found if one.counts}
    if kinds & {"float", "double"}:
        yield Condition(holds="counts may be rounded once a block, not with each one that is added", state="check",
                        why="both are exact below 2^24 in floats, below 2^53 in doubles")  # fmt: skip
    if kinds:
        yield Condition(holds="no block counts 2^32 ones at a place", state="check", why="the tables are of unsigned")
    if larger:
        yield Condition(holds=f"registers leave room for {LARGE:,} threads a block", state="check",
                        why="64 of each: kscope fix --check on the new cubin")  # fmt: skip


def _covered(counts: Counted, plan: Plan) -> Iterator[Condition]:
    many = f"{counts.times + ' times ' if counts.times else ''}as many threads"
    yield Condition(holds=f"the old launch has a thread for all that is below {counts.bound}", state="check",
                    why=f"the new one goes on until then, whatever its grid: {plan.blocks:,} blocks here")  # fmt: skip
    if counts.times:
        yield Condition(holds=f"{counts.times} is above 0", state="check", why=f"rounds end by {many}")


def _planned(setting: Setting, kernel: Kernel, found: list[Add], counts: Counted | None, adds: float) -> Plan | None:
    """The largest tables with which an SM holds as many warps as without, and of which each takes adds enough."""
    launch = setting.launch
    assert launch is not None
    block = launch.block
    flat = launch.block[1] * launch.block[2] == 1
    if counts is not None and counts.free and flat and _larger(setting):
        block = (LARGE, 1, 1)
    threads = block[0] * block[1] * block[2]
    held = setting.occupancy(threads=threads)
    tables = len({one.name for one in found})
    reached = [reach(kernel, one) for one in found]
    room = STATIC // SIZE // tables
    most = min(room, max(one or room for one in reached))
    if held is None or launch.blocks <= 1:
        return None
    for places in (1 << n for n in range(most.bit_length() - 1, min(most, LEAST).bit_length() - 2, -1)):
        with_them = setting.occupancy(threads=threads, more_shared=places * SIZE * tables)
        if with_them is None or with_them.warps < held.warps:
            continue
        plan = _launched(setting, kernel, (places, block, with_them.blocks * setting.sms), counts)
        if plan is not None and adds >= MANY * places * tables * plan.blocks:
            return structs.replace(plan, whole=all(n is not None and n <= places for n in reached))
    return None


def _larger(setting: Setting) -> bool:
    """Whether blocks are not as large as they may be, as far as registers and what the code is compiled for say."""
    launch, said = setting.launch, setting.code.program.resources
    bound = math.prod(said.max_threads) if said is not None and said.max_threads is not None else LARGE
    return launch is not None and launch.registers <= REGISTERS and launch.block[0] < LARGE <= bound


def _launched(
    setting: Setting, kernel: Kernel, sides: tuple[int, tuple[int, int, int], int], counts: Counted | None
) -> Plan | None:  # fmt: skip
    """sides: places, the block, blocks that the chip holds."""
    launch, (places, block, slots) = setting.launch, sides
    assert launch is not None
    if counts is not None:
        n = "xyz".index(counts.axis)
        others = launch.blocks // launch.grid[n]
        along = min(-(-launch.grid[n] * launch.block[n] // block[n]), max(1, slots // others))
        grid = (along, *launch.grid[1:]) if not n else (launch.grid[0], along, launch.grid[2])
        return Plan(grid, block, places, Rounds(counts.axis, 0), along * others)
    if max(launch.grid[1:]) == 1 and launch.blocks > slots and over_grid(kernel):
        return Plan((slots, 1, 1), block, places, Rounds("x", 0, once=True), slots)
    if launch.blocks <= slots:
        return Plan(launch.grid, block, places, Rounds("x", 0, once=True), launch.blocks)
    axis = max(range(3), key=lambda n: launch.grid[n])
    others = launch.blocks // launch.grid[axis]
    workers = max(1, slots // others)
    if not re.search(rf"\bblockIdx\s*\.\s*{'xyz'[axis]}\b", kernel.body):
        return None
    return Plan(launch.grid, block, places, Rounds("xyz"[axis], workers), workers * others)
