"""The tensor pipe idles between tiles while results are stored.

## What it does

Finds drops of the tensor pipe's timeline between tiles of a warp-specialised kernel, and how much of the time its MMA
role spends behind the last product of a tile.

## Why it costs time

A warpgroup that stores its accumulators issues no products. If all groups of an SM store at the same time, or the one
there is does, the tensor pipe stands still for the length of the epilogue, once a tile. The copies run ahead only as
far as the ring goes.

## Evidence

Bubbles in the timeline: how many, how long, how far apart, against the tiles a block works on; samples behind the last
product of a tile.

## Fix

Let the epilogue of one tile run beside the products of the next: two consumer groups that take turns (ping-pong),
accumulators double-buffered in tensor memory with an epilogue warpgroup of its own (sm_100), stores through shared
memory and TMA that nobody waits for, wider stores.

Before:

    for (tile...) { for (k...) wgmma(acc); wait<0>(); store(acc); }            // products stop while it stores

After:

    // two consumer groups, one tile apart: while one stores, the other multiplies
    for (tile = group; ...; tile += 2) {
        order.wait(group); for (k...) wgmma(acc); order.arrive(1 - group); store(acc);
    }

## In SASS

The stores of a tile stand between its last product and the first of the next, in the same warps.

From (capture ws_gemm.epilogue_exposed):

    WARPGROUP.DEPBAR.LE gsb0, 0x1
    ...
    WARPGROUP.DEPBAR.LE gsb0, 0x0
    ...
    STG.E desc[UR14][R4.64], R7
    ...
    STG.E desc[UR14][R2.64], R9
    ...
    STG.E desc[UR14][R4.64+0x10], R11

## When it is wrong

With one tile a block there is no next tile to overlap with: then it is the drain (ASY501). A long K makes the share
small by itself.

## Source

CUTLASS, sm90 pingpong and cooperative kernels; timeline of PM sampling (Kernel Profiling Guide).
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts
from kscope.rules._shared.pipelines import REMOVED, PipelineRule, sampled
from kscope.rules.base import PASSED, Missing, Outcome, Passed, derived, percent

SHARE = 0.02  # of the time


class EpilogueBubble(PipelineRule):
    code = "ASY503"
    slug = "epilogue-bubble"
    title = "The tensor pipe idles between tiles: the epilogue is not overlapped"
    regime = "compute"

    def check(self, facts: Facts, code: Code) -> Outcome:
        known = self.pipeline(facts)
        if isinstance(known, (Passed, Missing)):
            return known
        sp, loss = known
        ph = sp.phases
        assert ph is not None
        if not sp.products or loss.epilogue < SHARE or not sp.epilogue:
            return PASSED
        main = sp.time_of(sp.main)
        assert main is not None
        spent = sum(code.samples[i] for i in sp.epilogue) / main.samples if main.samples else 0.0
        count = len(ph.bubbles)
        seen = (
            f"The timeline shows {count} drop{'s' * (count > 1)} of {ph.lost / count:.1f} us each on average"
            f"{f', {ph.period:.0f} us apart' if ph.period else ''}, {sp.tiles:.0f} tiles a block."
            if count and loss.bubbles >= 0.5 * loss.epilogue
            else f"Tiles follow each other too fast for the timeline to show single drops ({sp.tiles:.0f} a block)."
        )
        return self.finding(
            why=(
                f"Between tiles the tensor pipe loses {percent(loss.epilogue)} of the time. {seen} The MMA role spends "
                f"{percent(spent)} of its time behind the last product of a tile; while products run, the pipe is at "
                f"{percent(ph.level)}."
            ),
            fix="overlap the store with the next tile's products: ping-pong consumer groups, a second accumulator "
            "(tensor memory on sm_100), TMA stores through shared memory that nobody waits for",
            evidence=[
                derived("lost between tiles", loss.epilogue, "", f"{ph.unit} timeline"),
                derived("bubbles", count, "", f"drops of the timeline, {ph.lost:.1f} us of plateau work in all"),
                derived("MMA role in the epilogue", spent, "", "share of its samples behind the last product"),
                derived("tiles a block", sp.tiles, "", "executions"),
            ],
            locations=sampled(code, sp.epilogue),
            estimate=facts.estimate.regain(
                loss.epilogue, sure=REMOVED, high=min(loss.epilogue * 1.25 + 0.01, loss.steady + 0.01)
            ),
            confidence=0.75,
        )
