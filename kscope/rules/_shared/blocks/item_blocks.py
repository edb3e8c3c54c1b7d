"""Blocks larger than the item that each works on: what GRD404 says of idle threads, and GRD405 of short ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.features.facts import WIDE, Facts, Items, between
from kscope.model.contract.analysis import Remedy
from kscope.model.units import figure
from kscope.rules._shared.blocks.idle_warps import Empty
from kscope.rules._shared.paid_once import WARP, items_of, of_a_warp
from kscope.rules.base import counted, derived, measured, percent

if TYPE_CHECKING:
    from kscope.features.facts import Demand
    from kscope.model.contract.analysis import Estimate

FULLER = 0.9  # of the use that smaller blocks make of their threads, up to which the present one wastes some
LINE = 128  # bytes of an item up to which one thread can read it all: lanes together use each line that they touch
JOINED = 16  # bytes of shared memory a thread, up to which it is where they join: a value of 8 and its place
SHARED = 1 / 8  # of the requests to L2 that are left at best where one warp has 32 items: what they share comes once

ONE = "where an item must keep a block: as many blocks start as now"
ALONE = "no join, 16 bytes a load; where neighbouring threads' items lie side by side, or are read through L1"


def too_large(facts: Facts) -> Empty | None:
    """Blocks whose threads have no element in some or all rounds: as many threads as have one."""
    work = items_of(facts)
    if work is None:
        return None
    sizes = [work.threads >> n for n in range(1, 6) if work.threads >> n >= WARP]
    fullest = max(map(work.used, sizes), default=0.0)
    if work.used(work.threads) > FULLER * fullest:
        return None
    size = next(s for s in sizes if work.used(s) >= FULLER * fullest)
    lanes = 1 << max(0, round(work.elements) - 1).bit_length()  # that hold an item side by side in a warp
    narrow = _with(facts, work, size)
    if lanes > WARP / 2:
        fix = f"{size} threads a block, or as many items a block as it has threads for"
        return _words(facts, work, size, fix, narrow, ())
    many = work.threads // lanes
    packed = _with(facts, work, lanes, many)
    ways = [Remedy(step=f"blocks of {size} threads", applies=True, why=ONE, estimate=narrow)]
    most = packed
    if work.elements * work.bytes <= LINE:
        most = _alone(facts, work)
        ways.append(Remedy(step="a thread an item", applies=True, why=ALONE, estimate=most))
    fix = f"{many} items a block, {lanes} lanes each, joined by shuffles"
    most = max(packed, most, key=lambda way: way.high)
    return _words(facts, work, size, fix, between(packed, low=narrow, high=most), tuple(ways))


def _words(facts: Facts, work: Items, size: int, fix: str, estimate: Estimate, ways: tuple[Remedy, ...]) -> Empty:
    code = facts.code
    assert code is not None  # items_of has asked
    needed = work.threads / max(1.0, min(work.elements, work.threads))
    idle = 1 - work.used(work.threads)
    times = f"{figure(needed)} times as many threads as elements" if needed > 1 else f"{percent(idle)} idle"
    rounds = work.rounds(work.threads)
    first = f"in {counted(rounds, 'round')}, in which {percent(idle)} of their places stay empty"
    return Empty(
        title=f"Blocks of {work.threads} threads for items of {counted(work.elements, 'element', '.4g')}: {times}",
        why=(
            f"Each block deals {counted(work.elements, 'element', '.4g')} out to {work.threads} threads, "
            f"{first}. {percent(code.issue_share(work.once))} of all instructions are run by every thread whatever it "
            f"gets: indices, parameters, its part in joining the results. Blocks of {counted(size, 'thread')} run "
            f"{percent(size / work.threads)} of them."
        ),
        evidence=[
            measured(facts, "launch__block_size"),
            derived("elements of an item", work.elements, "", "lanes with an element, a block"),
            derived("threads with an element", work.used(work.threads), "", "of all threads, over the rounds"),
            derived("instructions paid once a thread", code.issue_share(work.once), "", "outside what is dealt out"),
        ],
        locations=code.locations(work.dealt),
        estimate=estimate,
        fix=fix,
        remedies=ways,
    )  # fmt: skip


def a_warp_each(facts: Facts) -> tuple[Items, Estimate] | None:
    """Items that a warp each would do, several a block: threads have few elements now, and all join at barriers."""
    work = of_a_warp(facts)
    if work is None:
        return None
    estimate = _with(facts, work, WARP, work.threads // WARP)
    return work, between(estimate, low=_with(facts, work, work.threads // 2))


def _with(facts: Facts, work: Items, threads: int, together: int = 1) -> Estimate:
    """So many threads an item, and items a block."""
    scale = facts.profile.items_left(work, threads)
    scale["blocks"] = 1 / together
    return facts.estimate.overlap(_in_flight(facts, threads, together) / work.longer(threads), scale)


def _alone(facts: Facts, work: Items) -> Estimate:
    """A thread an item: nothing to join, its elements in loads of 16 bytes, neighbours' outputs in one sector."""
    scale: dict[Demand, float] = facts.profile.items_left(work, 1, joined=False, wide=work.bytes / WIDE)
    scale["blocks"] = 1 / work.threads
    scale |= {"l2_requests": SHARED, "l2_sectors": SHARED, "l2_writes": SHARED}
    return facts.estimate.overlap(_in_flight(facts, 1, work.threads), scale)


def _in_flight(facts: Facts, threads: int, together: int) -> float:
    """Items that an SM holds over now, as the grid has them; each keeps its shared memory, unless it is no more than
    what threads meet in, and shuffles join them."""
    launch, mine = facts.counters.launch, facts.kernel.launch
    shared = mine.shared_static + mine.shared_dynamic
    shared *= 0 if threads <= WARP and shared <= JOINED * mine.threads else together
    then = facts.profile.occupancy_with(mine.registers, max(WARP, threads * together), shared)
    given = launch.blocks / max(1, launch.sms)
    held = min(launch.blocks_per_sm, given)
    return min(then.blocks * together, given) / held if then is not None and held else 1.0
