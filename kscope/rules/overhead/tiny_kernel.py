"""The kernel is about as long as its own launch.

## What it does

Compares the kernel's time with what any launch costs: getting blocks onto the SMs, first instruction and constant
fetches, the drain at the end.

## Why it costs time

A launch takes 2 to 5 us on the host and at least 1 to 2 us on the device before the first result. Thousands of such
kernels spend the time between them, not in them.

## Evidence

Duration, the share of its cycles in which no SM had work, and the cycles that one load and one store keep an SM busy.

## Fix

Fuse it with its neighbours, batch many problems in one launch, or record the sequence in a CUDA graph.

Before:

    for (i...) scale<<<1, 64>>>(x + 64 * i);                       // 1,000 launches of 2 us

After:

    scale_all<<<(64 * n + 255) / 256, 256>>>(x, n);                // one

## In SASS

All that the kernel does.

From (capture launch_bound.tiny):

    S2R R5, SR_TID.X
    ...
    LDG.E R0, desc[UR4][R2.64]
    FADD R5, R0, 1
    STG.E desc[UR4][R2.64], R5
    EXIT

## When it is wrong

One small kernel in a long program costs nothing: only a timeline (Nsight Systems, torch profiler) tells how often it
runs and whether the host is waiting. What comes after the last block, while a slice of L2 still adds up, is no launch:
MEM109 has it.

## Source

CUDA C++ Programming Guide, CUDA Graphs; launch cost measured on an H200 (fixtures/h200/launch_bound.tiny).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kscope.rules.base import PASSED, CounterRule, Outcome, derived, measured, percent

if TYPE_CHECKING:
    from kscope.features.facts import Facts

SHORT_US = 5.0  # about the host's cost of one launch (15 rows of public kernels, H200: 2.9 to 6.2 us each)
HARDLY = 0.6  # of the time outside, from which nothing inside pays (judged: with 44 and 47 %, 1.59x and 1.20x were had)
MOSTLY_LAUNCH = 0.4  # of the time, that no SM works in or a kernel of one load and one store works as long


class TinyKernel(CounterRule):
    code = "OVH606"
    slug = "tiny-kernel"
    title = "The kernel is about as long as its launch"
    regime = "overhead"
    needs = ("gpu__time_duration.sum",)
    collect = "--section SpeedOfLight"

    def check(self, facts: Facts) -> Outcome:
        launch = facts.counters.launch
        duration = launch.duration_us or 0.0
        if duration > SHORT_US and launch.own + facts.estimate.start < MOSTLY_LAUNCH:
            return PASSED
        seen = "SM activity" in facts.counters.collected.parts
        idle_share = launch.own if launch.timed else facts.estimate.start
        estimate = facts.estimate.without_launch(idle_share, SHORT_US)
        idle = f"no SM has work in {percent(launch.outside)} of the kernel's {duration:.1f} us" if seen else ""
        idle = idle or f"the kernel takes {duration:.1f} us"
        rest = "What it computes hardly matters."
        if idle_share < HARDLY:
            rest = f"What it computes takes the other {percent(1 - idle_share)}: a shorter chain there counts, too."
        note = "1 - sm__cycles_active.max / elapsed"
        outside = [derived("time without work on any SM", launch.outside, "", note)] if seen else []
        found = self.finding(
            title=f"{duration:.1f} us: about the cost of the launch itself",
            why=f"{idle}, and the host needs 2 to 5 us to launch it. {rest}",
            fix="fuse with neighbours, batch several problems in a launch, or record the sequence as a CUDA graph",
            evidence=[measured(facts, "gpu__time_duration.sum"), *outside],
            estimate=estimate,
            confidence=0.8,
        )
        return msgspec.structs.replace(found, severity="major")
