"""Launches most of whose warps have no data: what GRD404 says of them, and GRD401 of the SMs."""

from __future__ import annotations

import math

from msgspec import Struct

from kscope.features.facts import Facts, up_to
from kscope.model.contract.analysis import Estimate, Evidence, Location, Remedy
from kscope.rules.base import counted, derived, measured, percent

OTHERS = ("not_selected", "math_pipe_throttle", "dispatch_stall", "lg_throttle", "mio_throttle", "tex_throttle")
"""Waits for the turn of other warps of the SM."""
CROWDED = 0.1  # of warp time in those, from which an SM of their own frees warps (judged)
BUSY = 0.3  # of a unit's load where there is work, the same (judged: 0.05 in DOITGEN, whose smaller blocks bring
# nothing, 0.88 in GESUMMV, where they bring 1.6x)
HALF = 0.5  # of the warps with data, up to which those without are more than a last block's rest; of what is expected
FILL = "as many items a block as it has threads for, or smaller blocks; launch no block without data"


class Empty(Struct, frozen=True):
    """The parts of a finding."""

    title: str
    why: str
    evidence: list[Evidence]
    locations: list[Location]
    estimate: Estimate
    fix: str = FILL
    remedies: tuple[Remedy, ...] = ()


def without_data(facts: Facts) -> Empty | None:
    """None where half the warps or more touch data, where that cannot be told, or where roles share the work. What
    warps without data execute and start goes, and where blocks follow each other the places that they hold go to warps
    that have some."""
    code, launch = facts.code, facts.counters.launch
    idle = facts.profile.idle_threads(launch.warps) if code is not None else None
    if code is None or idle is None or idle.working > HALF or facts.specialized.asynchronous:
        return None
    scale = facts.profile.demands_after(idle.members, idle.working)
    scale["blocks"] = idle.working
    places = 1 / max(1 - idle.held, idle.working) if launch.waves >= 1 else 1.0
    return Empty(
        title=f"{percent(1 - idle.working)} of the warps have no data to work on",
        why=(
            f"Of {counted(launch.warps, 'warp')} launched, {percent(idle.working)} touch data of their block. The "
            f"others hand nothing on, and take {percent(idle.held)} of all samples: places on an SM until their block "
            "ends, starts and issue slots."
        ),
        evidence=[
            measured(facts, "launch__block_size"),
            derived("warps with data", idle.working, "", "executions of accesses that hang on the block, a warp"),
            derived("samples of warps without data", idle.held, "", "warp samples by executions"),
        ],
        locations=code.locations(idle.places),
        estimate=facts.estimate.overlap(places, scale),
    )


def sms_without_work(facts: Facts) -> int:
    """SMs that stay without work because fewer warps than SMs have any: blocks that end at once are none. So many SMs
    stand still, which shows in their activity; where it does not, warps work at several places, few at each."""
    launch = facts.counters.launch
    warps = facts.profile.warps_at_work if facts.code is not None else 0.0
    if not 0 < warps < launch.sms or launch.imbalance < HALF * launch.sms / warps:
        return 0
    return launch.sms - math.ceil(warps)


def at_work(facts: Facts) -> int:
    """Blocks that have work, at most: where others end at once, no more than there are warps that do not."""
    launch = facts.counters.launch
    return min(launch.blocks, math.ceil(facts.profile.warps_at_work)) if sms_without_work(facts) else launch.blocks


def started(facts: Facts) -> str:
    """The blocks of the launch, and of them those that have work where it is not all."""
    blocks, working = counted(facts.counters.launch.blocks, "block"), at_work(facts)
    return blocks if working == facts.counters.launch.blocks else f"{blocks}, of which up to {working:,} have work,"


def meanwhile(facts: Facts) -> str:
    """What the SMs that have a block do, as far as it was collected."""
    unit, words = facts.counters.busiest, []
    if "SM activity" in facts.counters.collected.parts:
        words.append(f"SMs have work in {percent(facts.counters.launch.active)} of the time on average")
    if unit is not None:
        words.append(f"the fullest unit is at {percent(unit.busy)}")
    return f": {', '.join(words)}" if words else ""

def standing_empty(facts: Facts, idle: int) -> str:
    """SMs without a block or without work; where all have some, how far they are filled."""
    launch = facts.counters.launch
    if not idle:
        return f"Each SM holds {launch.blocks / launch.sms:.1f} of {launch.blocks_per_sm} blocks"
    none = "block" if idle == launch.idle_sms else "warp with work"
    return f"{idle} of {launch.sms} SMs get no {none}"


def crowded(facts: Facts) -> bool:
    """Whether warps that share an SM hold each other up: they wait for each other's turn, or for a unit there. Where
    nothing of that was collected they may."""
    stalls = facts.counters.stalls
    if not stalls.share or not facts.counters.units:
        return True
    return sum(map(stalls.of, OTHERS)) >= CROWDED or facts.estimate.inside >= BUSY


def one_chain(facts: Facts, estimate: Estimate, factor: float) -> Estimate:
    """Chains that nobody can share, spread over SMs that have none: no warp then waits for another's turn, nor in line
    for what an SM has for itself. As many of them still share a scheduler as SMs had work before. A method of shorter
    chains may bring much more."""
    launch, stalls = facts.counters.launch, facts.counters.stalls
    several = launch.warps_per_block > 1 and launch.idle_sms
    apart = facts.estimate.spread_apart(sum(map(stalls.of, OTHERS))) if several else estimate
    best = apart if apart.speedup > estimate.speedup else estimate
    return up_to(best, facts.estimate.overlap(factor, stay=False))
