"""The grid has fewer blocks than the device can hold: SMs or warp slots stay empty.

## What it does

Compares the blocks of the launch with the SMs and with the blocks that the device holds at once, and asks what of a
thread's work more threads could share: rounds of a loop that carry nothing, a sum, a minimum or a linear recurrence.

## Why it costs time

A block runs on one SM. Eight blocks on 132 SMs leave 124 idle; one small block an SM leaves most warp slots empty,
and latency uncovered.

## Evidence

Grid, blocks that fit at once (occupancy limits), mean SM activity, load of the fullest unit.

## Fix

Split the work finer: smaller tiles, more blocks over the reduction dimension (split-K, then a second pass or atomics),
several problems in one launch. Where each block walks a chain of its own and deals the rounds of its loops out to its
threads (`i += blockDim.x`), more threads a block. Blocks of a few threads fill the slots that an SM has for blocks, not
its places for threads: where rounds can be shared, both change together. Few wide blocks at a time may have what L2 can
keep from one pass over it to the next.

Before:

    reduce<<<8, 256>>>(in, out, n);

After:

    reduce<<<sms * blocks_per_sm, 256>>>(in, out, n);              // each SM full, once

## In SASS

The code is the same for 8 blocks and for 1,056.

From (capture small_grid.slow):

    LDG.E.CONSTANT R5, desc[UR6][R4.64]
    ...
    FADD R0, R5, R0
    ...
    FADD R3, R3, R0
    ...
    FADD R4, R3, R4
    ...
    FADD R5, R4, R5

## When it is wrong

Threads of a wider block that meet at barriers wait for more of their kind: the low end allows for it. A problem that is
small altogether cannot fill the device: batch it with others (OVH606). A loop that carries something
else (a loaded pointer, max(a + x, b), a state that takes one step in time a round: m = b m + g), or ends where its
data say (a walk over a tree), is one chain however many blocks there are: the estimate leaves it whole, and names how
many threads can share the rounds around it. A search that seldom finds anything is shared out: should it find more
with other data, rounds behind the first find are in vain. Where a unit
is already full with few blocks, the estimate shows no gain; where every SM has blocks and warps stand in line for the
issue slot, the rule passes. Parts of a sum must be joined: the estimate counts the traffic and one more start, not
fences and waits that the joining code adds of its own (triton_deep.split16 spends a third of its time in them and gains
1.4 times where 3.9 were promised). Blocks that end at once count for none where so many SMs stand still. Sums
that meet in one loop of compare-and-swaps are the block's first: eight times the warps took 14 times as long.

## Source

CUDA C++ Best Practices Guide, Execution Configuration. A public game of life in blocks of nine threads: 7.9x and 13x in
blocks of 96 with a cell a thread (4.5x and 10x said).
"""

from __future__ import annotations

from kscope.arch.chips import LANES
from kscope.features.facts import CHAIN, Demand, Facts, Pieces
from kscope.model.contract.analysis import Estimate, Remedy
from kscope.rules._shared.atomics import raced
from kscope.rules._shared.blocks.idle_warps import (
    at_work,
    crowded,
    meanwhile,
    one_chain,
    sms_without_work,
    standing_empty,
    started,
)
from kscope.rules._shared.blocks.wider_blocks import fuller, places, widened, wider_blocks
from kscope.rules._shared.data_reuse import sums_gone
from kscope.rules._shared.passes import widest_blocks
from kscope.rules._shared.shared_rounds import SHARE, SHARED, dealing_out, rounds_in_words
from kscope.rules.base import PASSED, CounterRule, Missing, Outcome, derived, measured

WAITS = ("long_scoreboard", "short_scoreboard", "wait", "barrier", "drain", "membar", "branch_resolving", "sleeping")
WAITING = 0.3  # of warp time in them, and at most READY of it ready but not selected: as low occupancy (LAT301) asks
READY = 0.1
THREADS = 1024  # of a block at most
RACED = "first a sum of the block, then one atomic a block: of so many warps more each would try again and again; then "
ALONE = " What one thread does is a chain as long as the kernel, without a loop that others could share."


class SmallGrid(CounterRule):
    code = "GRD401"
    slug = "small-grid"
    title = "The grid is too small for the device"
    regime = "overhead"
    needs = ("launch__grid_size",)
    collect = "--section LaunchStats --section Occupancy"

    def check(self, facts: Facts) -> Outcome:
        launch = facts.counters.launch
        if not launch.limits:
            return Missing(f"occupancy limits were not collected; profile with {self.collect}")
        capacity = launch.sms * launch.blocks_per_sm
        idle = max(launch.idle_sms, sms_without_work(facts))
        held, working = places(facts), at_work(facts)
        full, clusters = working >= capacity * 0.95, facts.kernel.launch.cluster != (1, 1, 1)
        if clusters or (full and not held) or not (idle or self._waits(facts)):
            return PASSED
        factor = capacity / max(1, working)
        estimate, divided = self._shared_out(facts, factor)
        if held and divided is not None and (found := fuller(self, facts, held, divided)) is not None:
            return found
        return PASSED if full else self._few(facts, factor, idle, estimate, divided)

    def _few(self, facts: Facts, factor: float, idle: int, estimate: Estimate, divided: Pieces | None) -> Outcome:
        """More blocks, or more threads in each, for a device that holds `factor` times as many blocks."""
        launch = facts.counters.launch
        capacity = launch.sms * launch.blocks_per_sm
        wider, times = wider_blocks(facts, factor)
        if wider is not None and wider.speedup > estimate.speedup:
            return widened(self, facts, capacity, wider, times)
        chain = divided.serial if divided is not None and estimate.capped_by == CHAIN else ()
        stuck = estimate.capped_by == CHAIN  # nothing is gained by splitting it: others find room beside it
        if estimate.speedup < 1.05 and not (stuck and idle > launch.sms // 4):
            return PASSED
        if stuck:
            estimate = one_chain(facts, estimate, factor)
        widest, estimate = widest_blocks(facts, factor, estimate)
        fix, remedies = self._ways(facts, divided, chained=bool(chain))
        rounds = rounds_in_words(facts, divided, chain)
        seen = "SM activity" in facts.counters.collected.parts
        note = "sm__cycles_active.avg over elapsed cycles"
        activity = [derived("mean SM activity", launch.active, "", note)] if seen else []
        return self.finding(
            title=f"{started(facts)} where the device holds {capacity:,}",
            why=f"{standing_empty(facts, idle)}{meanwhile(facts)}.{rounds or ALONE * stuck}",
            fix=fix,
            evidence=[
                measured(facts, "launch__grid_size"),
                derived(
                    "blocks that fit at once", capacity, "block", f"{launch.blocks_per_sm} on each of {launch.sms} SMs"
                ),
                *activity,
            ],
            estimate=estimate,
            remedies=remedies + widest,
            pulls=["+threads"],
            first=["MEM109"] if raced(facts) else [],
            locations=facts.code.locations(chain) if facts.code is not None and chain else None,
            confidence=0.9 if idle > launch.sms // 4 else 0.45,
        )

    def _ways(self, facts: Facts, divided: Pieces | None, *, chained: bool) -> tuple[str, list[Remedy]]:
        """What to do, and the ways whose condition does not hold."""
        launch, code = facts.counters.launch, facts.code
        if divided is None or code is None:
            return "more, smaller blocks: split the reduction (split-K), smaller tiles, several problems a launch", []
        ways, not_ = list[str](), list[Remedy]()
        if divided.most >= SHARED:
            ways.append(dealing_out(facts, divided))
        else:
            why = "a thread has one item"
            if chained:
                why = "the rounds follow one another: what a thread carries along, no other can share"
            not_.append(Remedy(step=SHARE, applies=False, why=why))
        if launch.idle_sms and launch.warps_per_block > 1:
            if any("barrier" in code.classes[i].kind for i in code.ran(range(len(code)))):
                why = "the warps of a block meet at barriers: what they share must fit the smaller block"
                not_.append(Remedy(step="smaller blocks", applies=True, why=why))
            elif not crowded(facts):
                why = "no warp waits for another's turn, nor for a unit"
                not_.append(Remedy(step="smaller blocks", applies=False, why=why))
            else:
                alone = chained and divided.most < SHARED
                ways.append(f"smaller blocks{' alone' if alone else ''}, to reach idle SMs")
        ways.append("several problems a launch")
        return (RACED if raced(facts) else "") + "; ".join(ways), not_

    def _waits(self, facts: Facts) -> bool:
        """All SMs work: more warps help only where those of now wait, and do not stand in line for the issue slot."""
        if not facts.counters.stalls.share:
            return True
        waiting = facts.specialized.exposed(*WAITS)
        return waiting >= WAITING and facts.counters.stalls.of("not_selected") <= READY

    def _inside(self, facts: Facts) -> float:
        """Parts of a thread's work that one block can take: what they bring is joined there, and stored once."""
        return THREADS / (facts.counters.launch.warps_per_block * LANES)

    def _shared_out(self, facts: Facts, factor: float) -> tuple[Estimate, Pieces | None]:
        """Gain with `factor` times the blocks, and what of a thread's work can be divided. Where a loop is what can
        be shared out, its sums or its carry must be joined: a second kernel, atomics or blocks that wait for each
        other, each at least one more start. Sums that are stored behind the loop are then written once a part and
        read again, at half the rate of loads (kscope.features.counters.hot_slice.HOT). A carry that is stored in each
        round is needed before the piece begins: its inputs are read twice."""
        code, path = facts.code, facts.estimate.latency_floor
        if code is None:
            return facts.estimate.overlap(factor, stay=False), None
        divided = facts.patterns.pieces(path.walk) if path is not None else None
        # All threads run at once: what they cannot share takes as long as before, whatever the waits in it are for.
        chain = 0.0
        if path is not None and divided is not None:
            chain = max(min(1.0, path.share), facts.estimate.waiting) * divided.left(factor)
        accesses = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access is not None))
        inside = [i for i in accesses if code.cfg.loop_of[i] is not None]
        behind = [i for i in accesses if code.cfg.loop_of[i] is None and code.classes[i].access == "store"]
        if not any(code.classes[i].access in ("load", "async_copy") for i in inside):
            return facts.estimate.overlap(factor, chain=chain, stay=False), divided
        parts = min(factor, divided.most) if divided is not None and divided.most >= SHARED else factor
        # A sum that is kept in memory, and stored in each round, is no sum of a part: that one stays in a register.
        once = sums_gone(facts)["l2_sectors"]
        more = 2 * (parts - 1) * facts.profile.sectors_share(behind) if parts > self._inside(facts) else 0.0
        scale: dict[Demand, float] = dict.fromkeys(("l2_sectors", "l2_requests", "l2_writes"), once + more)
        if divided is not None and divided.twice:
            again = 1 + facts.profile.sectors_share([i for i in inside if code.classes[i].access == "load"])
            for demand in ("dram_bytes", "l2_sectors", "l2_requests"):
                scale[demand] = scale.get(demand, 1.0) * again
        return facts.estimate.overlap(factor, scale, passes=2.0, chain=chain, stay=False), divided
