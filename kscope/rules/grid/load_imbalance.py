"""Some SMs work much longer than others.

## What it does

Compares the busiest SM with the mean, after what a small grid or a partial last wave explains.

## Why it costs time

The kernel ends when its last block ends. Blocks of uneven length, in an order that leaves the long ones last, keep a
few SMs busy while the rest idle.

## Evidence

`sm__cycles_active` maximum against average, waves.

## Fix

Long blocks first; smaller pieces; a work queue (atomic counter) or persistent blocks; split skewed rows over several
warps.

Before:

    row = blockIdx.x;                                              // one block a row, rows of 10 to 100,000

After:

    while ((piece = atomicAdd(&next, 1)) < pieces) process(piece);

## In SASS

Both versions run this loop; the number of rounds depends on the row, and which rows a block takes differs.

From (capture mandelbrot.bands):

    FFMA R3, R3, R10, R8
    @!P0  BRA 0xaf0
    ...
    FFMA R13, R11, R13, R6
    ...
    FSETP.GEU.AND P0, PT, R12, 4, PT
    @!P0  BRA P1, 0xb80

## When it is wrong

On very short kernels start-up skew looks like imbalance.

## Source

Kernel Profiling Guide, Workload Distribution.
"""

from __future__ import annotations

from kscope.features.facts import Facts
from kscope.rules.base import PASSED, Outcome, Rule, derived, measured, percent


class LoadImbalance(Rule):
    code = "GRD403"
    slug = "load-imbalance"
    title = "Work is uneven across SMs"
    regime = "overhead"
    needs = ("sm__cycles_active.max", "sm__cycles_active.avg")
    collect = "--section WorkloadDistribution"

    def check(self, facts: Facts) -> Outcome:
        launch = facts.launch
        # Blocks that are all resident at once: some SMs have one more than others, and nobody can share a block.
        most = -(-launch.blocks // launch.sms) if launch.sms else 1
        explained = launch.tail_gain if launch.waves > 1 else most * launch.sms / max(1, launch.blocks)
        left = launch.imbalance / max(1.0, min(explained, launch.imbalance))
        if left < 1.1 or launch.outside > 0.4:
            return PASSED
        return self.finding(
            title=f"The busiest SM works {launch.imbalance:.2f} times the mean",
            why=(
                f"SMs are active {percent(launch.active)} of the time on average and {percent(launch.active_max)} at "
                "most; neither the grid's size nor its last wave explains it: blocks take uneven time."
            ),
            fix="long blocks first, smaller pieces, a work queue or persistent blocks, split skewed rows",
            evidence=[
                measured(facts, "sm__cycles_active.max"),
                measured(facts, "sm__cycles_active.avg"),
                derived("imbalance left after tail and grid", left, "", ""),
            ],
            estimate=facts.bounds.balance(left, "even work"),
            confidence=0.6,
        )
