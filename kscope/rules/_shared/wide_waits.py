"""What of the waits for narrow accesses is left when they are wide: MEM102 asks.

A wait is a round trip or a queue. Loads that leave together come back together: one in their place takes the round
trip that they took, and only the queue at the load/store unit, in which each stood for itself, is shorter. Round trips
become fewer where rounds do: those of a loop that a thread walks by itself, and those of threads that take the elements
of others. Where the threads of a block meet at a barrier, the tile sets the rounds, and each thread its part of it:
neither rounds nor threads become fewer by the width of what is loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.features.facts import SECTORS, WIDE, Code, Facts, total

if TYPE_CHECKING:
    from kscope.features.facts import Merge, Scale

MOSTLY = 0.5  # of the accesses, from which those outside loops decide whether threads must become fewer
PATH = ("l1", "lsu", "l2", "dram")  # units on the way of an access
QUEUES = ("lg_throttle", "drain")  # what warps wait for at the load/store unit: its queue, by definition


class Left(Struct, frozen=True):
    """share: of the waits, 0..1; path: the same without any queue, as the latency floor is; fewer: whether threads
    become fewer."""

    share: float
    path: float
    fewer: bool


def waits_left(facts: Facts, code: Code, groups: Sequence[Merge], narrow: Collection[int], ratio: float) -> Left:
    """groups: accesses that one could replace; narrow: others under 16 bytes a lane; ratio: accesses that are left."""
    met = {code.cfg.loop_of[i] for i in code.ran(code.where(lambda ins, op: "barrier" in op.kind))}
    members = sorted({i for g in groups for i in g.members} | set(narrow))
    once = total(code.executed, [i for i in narrow if code.cfg.loop_of[i] is None])
    fewer = once >= MOSTLY * total(code.executed, members) and not met
    threads = max(ratio, min(1.0, 1 / max(facts.counters.launch.waves, 1e-9))) if not met else 1.0
    trips = {i: _rounds(code, i, met, ratio) if code.cfg.loop_of[i] is not None else threads for i in narrow}
    together = _flown(facts, groups)
    for g in groups:
        again = _rounds(code, g.members[0], met, g.bytes / WIDE) if _beside(facts, code, g) else 1.0
        trips |= dict.fromkeys(g.members, together * again)
    queue = [code.blame.by_producer[r] for r in QUEUES if r in code.blame.by_producer]
    full = facts.estimate.in_line("l1", "lsu")
    all_, left, path = 0.0, 0.0, 0.0
    for i in members:
        queued = sum(q[i] for q in queue)
        queued += full * (code.blamed[i] - queued)
        all_ += code.blamed[i]
        left += queued * ratio + (code.blamed[i] - queued) * trips[i]
        path += code.blamed[i] * trips[i]
    return Left(left / all_, path / all_, fewer) if all_ else Left(1.0, 1.0, fewer)


def _rounds(code: Code, index: int, met: Set[int | None], fewer: float) -> float:
    """Rounds of the loop around an access that are left; all where a barrier ends each, or outside loops."""
    loop = code.cfg.loop_of[index]
    return 1.0 if loop is None or not met.isdisjoint(code.cfg.loops_around(index)) else fewer


def _beside(facts: Facts, code: Code, group: Merge) -> bool:
    """Whether lanes lie side by side once their pieces are one: then an access can take a neighbour's too. Where all
    lanes want the same, there is no neighbour."""
    sectors = code.column(SECTORS)
    if sectors is None or any(sectors[i] <= code.executed[i] for i in group.members):
        return False
    return all(map(facts.profile.compact, group.members)) or facts.profile.compact_together(group.members, group.bytes)


def _flown(facts: Facts, groups: Sequence[Merge]) -> float:
    """Of the unloaded time that one warp spends on the groups, what it spends on the first of each: near 1 where all of
    a group are in flight together."""
    every = [i for g in groups for i in g.members]
    if not every:
        return 1.0
    bare = facts.estimate.floor_without(every)
    first = facts.estimate.floor_without([i for g in groups for i in g.members[1:]])
    return min(1.0, max(0.0, first - bare) / (1 - bare)) if bare < 1 else 1.0


def left_in_line(facts: Facts, code: Code, members: Sequence[int], ratio: float, scale: Scale) -> float:
    """What is left of the waits for these accesses where `ratio` of their sectors is, 0..1. The sectors of one request
    travel together: what becomes shorter is a queue. That for the load/store unit has a reason of its own and shrinks
    with the sectors; that for a busy unit on their way with what this unit is asked, which caches may have caught
    before."""
    waited = code.blamed_share(members)
    stopped = min(1.0, code.blamed_share(members, *QUEUES) / waited) if waited else 0.0
    queue = facts.estimate.in_line(*PATH)
    left = max(ratio, facts.estimate.left_in_line(scale, *PATH))
    return stopped * ratio + (1 - stopped) * (queue * left + 1 - queue)
