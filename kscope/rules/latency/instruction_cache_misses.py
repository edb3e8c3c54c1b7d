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

from kscope.features.facts import Code, Column, Facts, total
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

BYTES = 16  # an instruction
HALF = 0.5  # of the waits
STRAIGHT = 128 << 10  # bytes of the last cache before L2 (Jia et al.): code that runs once has to come through it
STRAIGHTENED = "repeated code as loops and functions (no full unrolling, __noinline__): less code for the same work"


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
        size, looped = _hot_code(code, waits)
        if size < (8 << 10 if looped else STRAIGHT):
            return PASSED  # fits every level: the misses are the first touch
        what = "the hot loop is" if looped else "the warps go through"
        way = "unroll less, keep rare paths out of line, fewer template variants in the loop"
        hot = code.hottest(range(len(code)), waits)[:3] if waits is not None else []
        return self.finding(
            why=(
                f"{percent(share)} of warp time waits for instructions; {what} {size / 1024:.0f} KiB of code"
                f"{'' if looped else ', most of it once'}."
            ),
            fix=way if looped else STRAIGHTENED,
            pulls=["-unrolling"],
            evidence=[
                derived("warp time waiting for instructions", share, "", "stall reason no_instruction"),
                derived(f"bytes of the hot {'loop' if looped else 'code'}", size, "byte", "16 an instruction"),
                measured(facts, "sm__icc_request_hit_rate.pct"),
            ],
            locations=[code.location(i) for i in hot],
            estimate=facts.estimate.relieve(share, 0.05, {}),
            confidence=0.7 if size > 32 << 10 else 0.5,
        )


def _hot_code(code: Code, waits: Column | None) -> tuple[int, bool]:
    """Bytes of the code that warps wait in, and whether it is a loop: the smallest loop that has half of the waits, or
    all that runs."""
    loops = sorted(code.cfg.loops, key=lambda lp: len(lp.instructions))
    every = total(waits, range(len(code))) if waits is not None else 0.0
    for loop in loops:
        if waits is not None and total(waits, loop.instructions) >= HALF * every > 0:
            return len(loop.instructions) * BYTES, True
    return len(code.ran(range(len(code)))) * BYTES, False
