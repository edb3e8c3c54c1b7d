"""Warps wait for memory fences.

## What it does

Finds `MEMBAR` instructions that warps wait at.

## Why it costs time

`__threadfence` waits until all earlier writes of the thread are visible to the whole device: a round trip to L2, or
more when the write queue is full. System-wide fences wait for the bus.

## Evidence

`membar` share of warp time, the fences by samples and scope.

## Fix

Fence once for several writes; the narrowest scope (`__threadfence_block`, `cuda::thread_scope_block`); release and
acquire operations (`cuda::atomic_ref`, `st.release`) on the flag instead of full fences.

Before:

    for (...) { out[i] = v; __threadfence(); flag[i] = 1; }

After:

    for (...) out[i] = v;   __threadfence(); flag[0] = 1;          // one fence

## In SASS

A fence behind each store (`MEMBAR.SC.GPU` and the checks that come with it); or stores alone, and one fence at the
end.

Before (capture publish.fence_each):

    MEMBAR.SC.GPU
    ERRBAR
    ...
    STG.E desc[UR6][R12.64], R17
    MEMBAR.SC.GPU
    ERRBAR

After (capture publish.fence_once):

    STG.E desc[UR6][R10.64], R16
    ...
    STG.E desc[UR6][R14.64], R18
    ...
    STG.E desc[UR6][R12.64], R21
    ...
    STG.E desc[UR6][R24.64], R27
    ...
    STG.E desc[UR6][R2.64], R5

## When it is wrong

A fence that publishes a block's result once is cheap.

## Source

CUDA C++ Programming Guide, Memory Fence Functions; Kernel Profiling Guide, stall reason membar.
"""

from __future__ import annotations

from kscope.features.facts import SPIN, Code, Facts, total
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, percent

FIX = "one fence for several writes, block scope, or release/acquire on the flag"
POLLED = (
    "wait for the flag with an acquire load (cuda::atomic_ref, memory_order_acquire) in place of a load and a fence in "
    "each round; where all threads of a block wait for one flag, one of them asks"
)


class MemoryFenceStalls(ProfiledRule):
    code = "LAT308"
    slug = "memory-fence-stalls"
    title = "Warps wait for memory fences"
    regime = "memory"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        fences = code.ran(code.where(lambda ins, op: "memory_fence" in op.kind))
        share = max(facts.counters.stalls.of("membar"), code.blamed_share(fences))
        if not fences or share < 0.08:
            return PASSED
        polling = {n for n, kind in facts.patterns.loop_kinds.items() if kind == SPIN}
        polled = [i for i in fences if code.cfg.loop_of[i] in polling]
        polls = 2 * total(code.executed, polled) > total(code.executed, fences)
        passes = max(code.executed[i] for i in fences) / max(1, facts.counters.launch.warps)
        return self.finding(
            why=f"{percent(share)} of warp time waits at {code[fences[0]].name}, passed {passes:.1f} times a warp.",
            fix=POLLED if polls else FIX,
            evidence=[
                derived("warp time at fences", share, "", "stall reason membar and samples at MEMBAR"),
                derived("fences a warp", passes, "", "executions"),
            ],
            locations=code.locations(fences),
            estimate=facts.estimate.relieve(share, 0.2, {}, latency=facts.estimate.floor_without(fences, 0.2)),
            confidence=0.75,
        )
