"""Warps wait for instructions: the loop body is larger than the instruction cache.

## What it does

Looks at `no_instructions` stalls and the size of the loops in which they occur.

## Why it costs time

Straight-line code that does not fit the instruction caches is fetched again in each iteration, by every warp.

## Evidence

`no_instructions` share of warp time, the bytes of the hot loop (16 an instruction), L1.5 instruction-cache hit rate.

## Fix

Unroll less (`#pragma unroll 4` instead of full), keep rarely used paths out of line (`__noinline__`), fewer template
variants in one loop.

Before:

    #pragma unroll                                                 // 4096 copies of the body
    for (int i = 0; i < 4096; i++) ...

After:

    #pragma unroll 8
    for (int i = 0; i < 4096; i++) ...

## In SASS

One branch tree into 205 KB of straight code, or one loop over coefficients.

Before (capture operators.specialised):

    BRA 0x341b0
    ...
    @!P0  BRA 0x170
    ...
    FADD R2, R11, R13
    ...
    FADD R0, R2, R9
    FADD R7, R0, R7

After (capture operators.generic):

    FFMA R7, R7, R10, 0.5
    ...
    FFMA R9, R4, R9, R15
    FFMA R17, R4, R8, R15
    FFMA R13, R4, R13, R15
    FFMA R11, R4, R11, R15

## When it is wrong

Very short kernels miss once on every instruction: that is launch cost, not the loop.

## Source

Kernel Profiling Guide, stall reason no_instruction; Jia et al., arXiv 1804.06826, instruction cache sizes.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts, total
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

BYTES = 16  # an instruction


class InstructionCacheMisses(ProfiledRule):
    code = "LAT306"
    slug = "instruction-cache-misses"
    title = "Warps wait for instructions"
    regime = "compute"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        stalls = facts.counters.stalls
        share = stalls.of("no_instructions")
        if share < 0.08 or facts.counters.launch.outside > 0.4:
            return PASSED
        waits = code.stall.get("no_instructions")
        loops = sorted(
            code.cfg.loops, key=lambda lp: -(total(waits, lp.instructions) if waits is not None else 0.0)
        )
        size = len(loops[0].instructions) * BYTES if loops else len(code) * BYTES
        if size < 8 << 10:
            return PASSED  # fits every level: the misses are the first touch
        hot = code.hottest(range(len(code)), waits)[:3] if waits is not None else []
        return self.finding(
            why=(
                f"{percent(share)} of warp time waits for instructions; the hot loop is {size / 1024:.0f} KiB of code."
            ),
            fix="unroll less, keep rare paths out of line, fewer template variants in the loop",
            pulls=["-unrolling"],
            evidence=[
                derived("warp time waiting for instructions", share, "", "stall reason no_instruction"),
                derived("bytes of the hot loop", size, "byte", "16 an instruction"),
                measured(facts, "sm__icc_request_hit_rate.pct"),
            ],
            locations=[code.location(i) for i in hot],
            estimate=facts.estimate.relieve(share, 0.05, {}),
            confidence=0.7 if size > 32 << 10 else 0.5,
        )
