"""Where atomics go: inside the SM or to L2, each to a place of its own, two to places side by side; and whose waits are
the queue that they hold up."""

from __future__ import annotations

from itertools import combinations

from kscope.features.facts import SECTOR, SECTORS, Code, Facts, total
from kscope.model.kernel import Metrics
from kscope.model.operand import memory_operand

WORD = 4
ALONE = 0.9  # sectors a lane from which lanes do not meet, and of those the share FETCHED from device memory from which
FETCHED = 0.5  # no other warp had them in L2 (judged: a hash table of 512 MB has 1.0 and 1.1; reductions 0.0 to 0.4)

ADD = "aggregate in registers, across the warp or in shared memory first; then one a block and address"
ONCE = "add up in the block first, then one native atomicAdd a block (double has one from sm_60 on), no loop of its own"
RETRIED = 1.5  # tries a sum, from which warps get in each other's way (judged: one kernel, with 190)

IDLE = 0.3  # load of the fullest unit, below which none is what warps stand in line for
LARGEST = 0.3  # share of warp time at atomics, or in the queue that they stand in, from which it is the largest wait
EXPLAINED = 0.3  # share of the time that latency explains, below which only the queue is left where no unit is busy


def apart(facts: Facts, code: Code, atomics: list[int]) -> bool:
    """Each lane's atomic takes a sector of its own, and most of these come from device memory: a table far larger than
    L2, at whose places nobody meets."""
    outside, inside = spaces(code, atomics)
    sectors, moved = code.column(SECTORS), facts.counters.traffic.dram_bytes
    if inside or sectors is None or moved is None:
        return False
    mine, every = total(sectors, outside), total(sectors)
    brought = moved - (every - mine) * SECTOR
    return mine > 0 and mine >= ALONE * total(code.threads, outside) and brought >= FETCHED * mine * SECTOR


def beside(facts: Facts, code: Code, atomics: list[int]) -> list[int]:
    """The atomics on the word next to that of others in the same array: of two places the one less often changed."""
    places: dict[tuple[str, int], list[int]] = {}
    for i in atomics:
        operand, array = memory_operand(code[i].operands), facts.addresses.pointer(i)
        if operand is not None and array is not None:
            places.setdefault((array, operand.value), []).append(i)
    out = set[int]()
    for (one, here), (other, there) in combinations(places, 2):
        size = max(WORD, *(code.classes[i].bytes for i in (*places[one, here], *places[other, there])))
        if one == other and 0 < abs(here - there) <= size:
            pair = places[one, here], places[other, there]
            out.update(min(pair, key=lambda members: total(code.executed, members)))
    return sorted(out)


def spaces(code: Code, atomics: list[int]) -> tuple[list[int], list[int]]:
    """(outside the SM, on shared memory)."""
    inside = [i for i in atomics if code.classes[i].space == "shared"]
    return [i for i in atomics if i not in inside], inside


def sectors_share(facts: Facts, atomics: list[int]) -> float:
    """Share of the sectors that L2 handles which are these atomics', 0..1: as L2 counts them, a lane at a time, where
    the report has that."""
    m = facts.kernel.metrics
    every = m.get("lts__t_sectors_srcunit_tex.sum")
    red, atom, parts = (_counted(m, kinds) for kinds in (("red",), ("atom",), ("atom_dot_alu", "atom_dot_cas")))
    swapped = parts if atom is None else atom  # before sm_80 by what is done to them
    if not every or red is None or swapped is None:
        return facts.profile.sectors_share(atomics)
    return min(1.0, (red + swapped) / every)


def _counted(metrics: Metrics, kinds: tuple[str, ...]) -> float | None:
    found = [metrics.get(f"lts__t_sectors_srcunit_tex_op_{kind}.sum") for kind in kinds]
    return None if None in found else sum(x for x in found if x is not None)


def queueing(facts: Facts, share: float, hot: bool) -> float:
    """Share of warp time that waits for atomics, of which `share` does so at them. A saturated atomic queue delays
    every other memory access too: when atomics are the largest wait and no unit is full, or one L2 slice has the queue
    (`hot`), the other memory waits are theirs. A queue in front of units that have nothing to do is held up by what
    stands in it."""
    unit, stalls = facts.counters.busiest, facts.counters.stalls
    if hot and _nothing_else(facts):
        return max(share, 1 - stalls.of("selected", "not_selected"))
    idle = unit is None or unit.load < IDLE
    if hot or (idle and max(share, stalls.of("lg_throttle")) > LARGEST):
        others = stalls.of("long_scoreboard", "short_scoreboard", "lg_throttle", "mio_throttle")
        return min(1.0, share + others)
    return share


def _nothing_else(facts: Facts) -> bool:
    """No unit is busy and latency explains little: what warps wait for is the queue, wherever they stand."""
    path = facts.estimate.latency_floor
    return facts.counters.nothing_busy and path is not None and path.share < EXPLAINED


def raced(facts: Facts) -> list[int]:
    """Compare-and-swap loops in which all warps add to one address: who loses a round tries again, so the tries grow
    with the square of the warps (8 times as many in a public kernel: 14 times as long)."""
    code = facts.code
    if code is None:
        return []
    found = []
    for i in code.ran(code.where(lambda ins, op: op.access == "atomic" and op.space == "global" and "CAS" in ins.mods)):
        loop, origins = code.cfg.loop_of[i], facts.addresses.origins(i)
        alone = origins is not None and origins.isdisjoint({"tid", "x", "y", "z", "load", "table"})
        if loop is not None and alone and facts.addresses.swaps_its_own(i) and facts.patterns.trips(loop) >= RETRIED:
            found.append(i)
    return found
