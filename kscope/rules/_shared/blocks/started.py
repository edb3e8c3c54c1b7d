"""Blocks that end as fast as the device can start them: fewer starts for the same work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.features.facts import Code, Facts
from kscope.model.contract.analysis import Estimate, Finding
from kscope.rules._shared.coarser_threads import alike_once
from kscope.rules._shared.paid_once import paid_once
from kscope.rules.base import Rule, derived, percent

if TYPE_CHECKING:
    from kscope.features.facts import Demand

STARTS = 0.6  # of the rate at which blocks start, from which it is what small blocks wait for
MANY = 2.0  # waves from which blocks follow each other
LEAST = 1.05  # gain below which they are not worth a word
WHOLE = 64  # threads from which a block is large enough: what ends too soon are its threads (judged: five kernels)
TILED = 4.0  # elements a thread of a tile: a block of it is as long as four of now (judged: one kernel)
LOADS = ", and have more loads in flight"
TILES = " Blocks end as fast as the device can start them: a tile has several elements a thread."


def outrun(facts: Facts) -> bool:
    """Whether blocks end about as fast as the device can start them."""
    return facts.estimate.starting >= STARTS and facts.counters.launch.waves >= MANY


def in_tiles(facts: Facts, *, possible: bool) -> tuple[dict[Demand, float], str]:
    """Blocks that are left where lanes change places through tiles, and why: a tile's block need not be as short as one
    of now. Nothing where it is not possible, or the device starts blocks fast enough."""
    if possible and outrun(facts) and facts.counters.launch.waves >= MANY * TILED:
        return {"blocks": 1 / TILED}, TILES
    return {}, ""


def held(facts: Facts) -> float:
    """How many times as many warps as now an SM could hold, were they started sooner."""
    occ = facts.counters.occupancy
    return max(1.0, occ.theoretical / occ.achieved) if occ is not None and occ.achieved else 1.0


def starting(facts: Facts) -> str:
    """In words: how fast blocks start, and what of the device they fill."""
    launch, occ = facts.counters.launch, facts.counters.occupancy
    why = (
        f"{launch.blocks:,} blocks start, {percent(facts.estimate.starting)} of the most that a device was "
        "seen to start in that time."
    )
    if occ is not None and occ.achieved is not None:
        why += (
            f" They fill {occ.theoretical} of {occ.maximum} warp slots by their resources, and {occ.achieved:.0f} on "
            "average."
        )
    return why


def _longer_threads(facts: Facts, code: Code, times: int) -> Estimate | None:
    """What threads of `times` as many elements bring where blocks of whole warps end too soon; None elsewhere. Warps
    stay long enough for the SM to be full, and run once what each thread runs for itself."""
    threads = facts.kernel.launch.threads
    if not outrun(facts) or threads < WHOLE or threads % 32:
        return None
    times = min(times, int(facts.counters.launch.waves))
    once = sorted({*paid_once(code, set(), reduces=False), *alike_once(facts, code)})
    scale = facts.profile.demands_after(once, 1 / times) | {"blocks": 1 / times}
    return facts.estimate.overlap(held(facts), scale, stay=False)


def longer(rule: Rule, facts: Facts, code: Code, times: int) -> Finding | None:
    """Threads of blocks that are large enough end as soon as the next ones can be started."""
    estimate = _longer_threads(facts, code, times)
    if estimate is None or estimate.speedup < LEAST:
        return None
    loads = code.ran(code.where(lambda ins, op: op.access == "load" and op.space == "global"))
    return rule.finding(
        title=f"Blocks of {facts.kernel.launch.threads} threads end as fast as the device can start them",
        why=f"{starting(facts)} Threads that do more leave fewer blocks to start{LOADS if loads else ''}.",
        fix=f"up to {times} elements a thread: a grid-stride or unrolled loop; a warp an item, several items a block",
        evidence=[
            derived("blocks started", facts.estimate.starting, "", "of the most that a device was seen to start"),
            derived("waves", facts.counters.launch.waves, "", "blocks over what the device holds"),
        ],
        estimate=estimate,
        pulls=["-threads"],
        confidence=0.7,
    )
