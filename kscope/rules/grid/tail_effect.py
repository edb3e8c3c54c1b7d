"""The last wave of blocks fills only part of the device.

## What it does

Computes how full the last wave is and compares it with the measured balance between SMs.

## Why it costs time

Blocks run in waves of as many as fit at once. 133 blocks on 132 SMs take two waves: the second runs one block while
131 SMs idle.

## Evidence

Waves (`launch__waves_per_multiprocessor`), the busiest SM against the mean.

## Fix

Choose the tile so that whole waves come out; a persistent kernel with a work queue; stream-K for matrix products.

Before:

    k<<<133, 1024>>>();                                            // 1.01 waves, two rounds

After:

    k<<<132, 1024>>>();  // grid-stride or persistent: one round

## In SASS

The code is the same for 133 blocks and for 132.

From (capture tail_effect.slow):

    FFMA R8, R8, R5, 0.5
    FFMA R10, R10, R5, 0.5
    FFMA R12, R12, R5, 0.5
    FFMA R6, R6, R5, 0.5
    FFMA R8, R8, R5, 0.5

## When it is wrong

With short blocks and many waves the tail is small; blocks of uneven length blur the waves (GRD403). Smaller tiles
of a matrix product ask L2 for more bytes: where L2 is busy they bring less than whole waves promise, and only blocks
that share tiles (stream-K, split-K) keep both.

## Source

NVIDIA GEMM tuning guide, wave quantisation; Osama et al., Stream-K, PPoPP 2023.
"""

from __future__ import annotations

from kscope.features.facts import Facts, between
from kscope.rules.base import PASSED, CounterRule, Missing, Outcome, derived, measured, percent

HALVED = 1.5  # bytes of a product tile with one side halved, over those of the whole: (1 / (m / 2) + 1 / m) / (2 / m)
PAYS = 1.05  # gain from which smaller tiles are the way to whole waves
PRODUCT, SURE = 0.7, 0.35
"""Confidence: of products, whose tile has a price (judged), and of others. Six public kernels were given whole waves:
0.97x, 0.98x, 1.00x, 1.04x, 1.12x and 1.21x where 1.11x to 1.69x was promised; and of 25 that were among the first three
suggestions, experts had named it in 3."""


class TailEffect(CounterRule):
    code = "GRD402"
    slug = "tail-effect"
    title = "The last wave of blocks is nearly empty"
    regime = "overhead"
    needs = ("launch__waves_per_multiprocessor",)
    collect = "--section LaunchStats --section Occupancy"

    def check(self, facts: Facts) -> Outcome:
        launch = facts.counters.launch
        if not launch.limits:
            return Missing(f"occupancy limits were not collected; profile with {self.collect}")
        if launch.waves <= 1 or launch.tail_gain < 1.05:
            return PASSED
        # The model says what equal blocks would lose; the measured balance says what these did lose.
        lost = min(launch.tail_gain, launch.imbalance)
        if lost < 1.05:
            return PASSED
        last = launch.waves - int(launch.waves)
        product = facts.counters.product_tile is not None
        estimate = facts.estimate.balance(lost, "whole waves")
        if product:
            smaller = facts.estimate.balance(lost, "whole waves", dict.fromkeys(("l2_sectors", "l2_requests"), HALVED))
            if smaller.speedup >= PAYS:
                estimate = between(smaller, high=estimate)
        return self.finding(
            title=f"{launch.waves:.2f} waves: the last one fills {percent(last)} of the device",
            why=(
                f"{launch.blocks:,} blocks run {launch.sms * launch.blocks_per_sm:,} at a time. The busiest SM works "
                f"{launch.imbalance:.2f} times the mean; whole waves would save that."
            ),
            fix="a persistent kernel whose blocks share the last tiles (stream-K, split-K); a tile size that gives "
            "whole waves: half a tile asks L2 for half as much again"
            if product
            else "a tile size that gives whole waves, a persistent kernel with a queue, stream-K",
            evidence=[
                measured(facts, "launch__waves_per_multiprocessor"),
                derived("busiest SM over the mean", launch.imbalance, "", "sm__cycles_active.max / .avg"),
            ],
            estimate=estimate,
            pulls=["-tile"],
            confidence=PRODUCT if product else SURE,
        )
