"""Multiply-adds that load too much for each, of data that could be kept: MEM112 says so, MEM102 leaves them alone."""

from __future__ import annotations

from kscope.features.facts import Code, Facts, FmaLoop

CAUGHT = 0.6  # L1 hit rate from which global loads are read again and again


def wasteful(facts: Facts, code: Code) -> list[FmaLoop]:
    """Loops of multiply-adds that load too much for each, of data that is read more than once."""
    return [
        lp
        for lp in facts.patterns.fma_loops
        if lp.words_per_fma > 0.6 and lp.issue > 0.04 and lp.sums
        and _reused(facts, code, lp) and not _gathered(facts, lp)
    ]  # fmt: skip


def _gathered(facts: Facts, loop: FmaLoop) -> bool:
    """Most of the loads go where loaded data says: no tile is known beforehand to hold what they will read."""
    return 2 * sum(facts.addresses.gathers(i) for i in loop.loads) > len(loop.loads)


def _reused(facts: Facts, code: Code, loop: FmaLoop) -> bool:
    """Whether the loads' data is read more than once, so that a tile could keep it: it sits in shared memory, L1
    catches most of it, or neither address depends on the whole grid."""
    if any(code.classes[i].space == "shared" for i in loop.loads):
        return True
    if (facts.counters.traffic.l1_hit or 0.0) >= CAUGHT:
        return True
    used = {axis for axis, n in zip("xyz", facts.kernel.launch.grid, strict=True) if n > 1}
    reached = [facts.addresses.grid_dimensions(i) for i in loop.loads]
    return loop.both and len(used) > 1 and all(r is not None and used - r for r in reached)
