"""Multiply-adds that load too much for each, of data that could be kept: MEM112 says so, MEM102 leaves them alone."""

from __future__ import annotations

from collections.abc import Iterable

from kscope.features.facts import Code, Facts, FmaLoop, Scale
from kscope.rules._shared.own_records import own_records

WORDS = 0.6  # loaded for a multiply-add, above which that is too many
FULL = 0.35  # the same where their path is the fullest unit: tiles of 8 x 8 need 0.25, of 8 x 4 still 0.375 (judged)
CAUGHT = 0.6  # L1 hit rate from which global loads are read again and again


def wasteful(facts: Facts, code: Code) -> list[FmaLoop]:
    """Loops of multiply-adds that load too much for each, of data that is read more than once; then those that join
    pairs in another way (`facts.patterns.pair_loops`)."""
    every = [(lp, _reused(facts, code, lp)) for lp in facts.patterns.fma_loops]
    every += [(lp, _crossed(facts, code, lp)) for lp in facts.patterns.pair_loops]
    fullest = facts.counters.busiest
    most = FULL if fullest is not None and fullest.name in ("l1", "lsu") and fullest.load >= WORDS else WORDS
    return [
        lp
        for lp, reused in every
        if reused and lp.words_per_fma > most and lp.issue > 0.04 and lp.sums and not _gathered(facts, lp)
    ]


def _crossed(facts: Facts, code: Code, loop: FmaLoop) -> bool:
    """Every value of one side meets every one of the other: a load is the same for all lanes and another is not, or
    one side lies in shared memory and the other does not, or each ignores a dimension of the grid. Neighbours (a
    stencil, a sum of two streams) meet once."""
    if not _reused(facts, code, loop):
        return False
    spaces = {code.classes[i].space for i in loop.loads}
    alike = [isinstance(facts.lanes.addresses(i), int) for i in loop.loads]
    if len(spaces) > 1 or (any(alike) and not all(alike)):
        return True
    used = {axis for axis, n in zip("xyz", facts.kernel.launch.grid, strict=True) if n > 1}
    reached = [facts.addresses.grid_dimensions(i) for i in loop.loads]
    return spaces != {"shared"} and len(used) > 1 and all(r is not None and used - r for r in reached)


def _gathered(facts: Facts, loop: FmaLoop) -> bool:
    """Most of the loads go where loaded data says: no tile is known beforehand to hold what they will read."""
    return 2 * sum(facts.addresses.gathers(i) for i in loop.loads) > len(loop.loads)


def _pieces(facts: Facts, code: Code, loop: FmaLoop) -> bool:
    """What L1 catches are the other words of records that one thread reads, or of rows that lanes walk apart, each its
    own: most of the loads are of such."""
    mine = own_records(facts, code).keys() | walked(facts, code, loop.loads)
    return 2 * len(mine & set(loop.loads)) > len(loop.loads)


def walked(facts: Facts, code: Code, loads: Iterable[int]) -> set[int]:
    """Loads of which a round takes up where the last one stopped, in lanes that are apart: how far is the launch's
    matter, so that own_records may not know it."""
    ways = dict[tuple[str | None, int | None], list[int]]()
    for i in loads:
        ways.setdefault((facts.addresses.pointer(i), code.cfg.loop_of[i]), []).append(i)
    found = set[int]()
    for (_, loop), way in ways.items():
        bytes_ = sum(code.classes[i].bytes for i in way)
        steps = facts.lanes.strides.steps(way[0]) if loop is not None else ()
        if steps and all(step == bytes_ for step in steps) and not any(map(facts.profile.compact, way)):
            found.update(way)
    return found


def _reused(facts: Facts, code: Code, loop: FmaLoop) -> bool:
    """Whether the loads' data is read more than once, so that a tile could keep it: it sits in shared memory, L1
    catches most of it, or neither address depends on the whole grid."""
    if any(code.classes[i].space == "shared" for i in loop.loads):
        return True
    if (facts.counters.traffic.l1_hit or 0.0) >= CAUGHT and not _pieces(facts, code, loop):
        return True
    used = {axis for axis, n in zip("xyz", facts.kernel.launch.grid, strict=True) if n > 1}
    reached = [facts.addresses.grid_dimensions(i) for i in loop.loads]
    return loop.both and len(used) > 1 and all(r is not None and used - r for r in reached)


def stores_gone(facts: Facts, members: Iterable[int]) -> Scale:
    """What L2 is asked less without these stores: L1 is written through, so it takes each of them."""
    left = 1 - facts.profile.written_to_l2(members, facts.counters.traffic.l2_sectors)
    return {"l2_sectors": left, "l2_requests": left, "l2_writes": left}


def sums_gone(facts: Facts) -> Scale:
    """The same without the stores of all sums that loops keep in memory."""
    return stores_gone(facts, [i for kept in facts.patterns.kept_in_memory for i in kept.stores])
