"""The block size wastes lanes or block slots.

## What it does

Finds block sizes that are no multiple of 32, and blocks so small that the limit of blocks an SM leaves warp slots
empty.

## Why it costs time

Lanes of the last, partial warp are issued but do nothing. An SM holds at most 16 to 32 blocks: with 32 threads each,
half or more of its warps cannot exist.

## Evidence

Threads a block, warps a block, the occupancy limit by block slots.

## Fix

A multiple of 32 (best 128 or 256) threads a block; two-dimensional blocks as 32 x n.

Before:

    dim3 block(10, 10);                                            // 100 threads: 4 warps, 28 lanes idle

After:

    dim3 block(32, 4);

## In SASS

36 threads are two warps; the second runs each instruction with four lanes.

From (capture julia.block6x6):

    FFMA R7, R4, R4, -R7
    FFMA R9, R9, R8, 0.20000000298023223877
    ...
    FFMA R4, R7, R7, -R4
    ...
    FFMA R8, R9, R8, 0.20000000298023223877
    ...
    FFMA R4, R9, R9, -R4

## When it is wrong

Blocks that cooperate closely on few elements can be better small; the estimate shows what occupancy would bring. A grid
that does not fill the slots is GRD401's.

## Source

CUDA C++ Best Practices Guide, Thread and Block Heuristics.
"""

from __future__ import annotations

from kscope.features.facts import Facts, Scale
from kscope.rules.base import PASSED, CounterRule, Outcome, counted, derived, measured, percent

LEAST = 1.05  # gain below which more warps are not worth a word


class BlockSize(CounterRule):
    code = "GRD404"
    slug = "block-size"
    title = "The block size wastes lanes or warp slots"
    regime = "overhead"
    needs = ("launch__block_size",)
    collect = "--section LaunchStats"

    def check(self, facts: Facts) -> Outcome:
        launch, occ = facts.counters.launch, facts.counters.occupancy
        threads = facts.kernel.launch.threads
        wasted = 1 - threads / (32 * launch.warps_per_block)
        # Slots limit only a grid that fills them, and only where more warps would find something to wait for.
        crowded = occ is not None and "blocks" in occ.limiters and occ.theoretical < 0.6 * occ.maximum
        crowded = crowded and launch.waves >= 1 and not facts.specialized.asynchronous
        if wasted < 0.03 and not crowded:
            return PASSED
        title, fix = None, "a multiple of 32 threads, 128 or 256 a block"
        if wasted >= 0.03:
            kept = 1 - wasted
            scale: Scale = dict.fromkeys(("instructions", "fma", "fmaheavy", "alu", "xu", "lsu_instructions"), kept)
            estimate = facts.estimate.relieve(wasted, 0.0, scale, latency=kept)
            warps = counted(launch.warps_per_block, "warp")
            why = f"{counted(threads, 'thread')} fill {warps}: {percent(wasted)} of the lanes never work."
        else:
            assert occ is not None
            estimate = facts.estimate.overlap(occ.relaxed / max(1, occ.theoretical))
            if estimate.speedup < LEAST:
                return PASSED
            title = f"Blocks of {threads} threads fill {occ.theoretical} of {occ.maximum} warp slots"
            fix = f"128 or 256 threads a block, several items each or more warps an item: up to {occ.relaxed} warps fit"
            why = (
                f"An SM holds {counted(launch.blocks_per_sm, 'block')} of {counted(launch.warps_per_block, 'warp')}: "
                f"{occ.theoretical} of {occ.maximum} warps, limited by block slots alone."
            )
        return self.finding(
            title=title,
            why=why,
            fix=fix,
            evidence=[
                measured(facts, "launch__block_size"),
                derived("idle lanes", wasted, "", "of all lanes launched"),
                measured(facts, "launch__occupancy_limit_blocks"),
            ],
            estimate=estimate,
            confidence=0.7,
        )
