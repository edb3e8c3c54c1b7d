"""Some SMs work much longer than others.

## What it does

Compares the busiest SM with the mean, after what a small grid or a partial last wave explains. SMs that execute as
many instructions as the others and still take longer wait longer for the same work: that is not this rule's.

## Why it costs time

The kernel ends when its last block ends. Blocks of uneven length, in an order that leaves the long ones last, keep a
few SMs busy while the rest idle.

## Evidence

`sm__cycles_active` and `sm__inst_executed`, maximum against average; waves.

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

On very short kernels start-up skew looks like imbalance. Where all blocks start at once, their order changes nothing;
only smaller pieces do. If even the busiest SM is far from full then, it waits for the longest chain of one thread
rather than for much work, and nothing but splitting that shortens it: the finding is less sure. Where fewer warps than
SMs have any work, nothing can be evened out: GRD401 speaks of that. Work that differs in bytes and not in instructions
(one copy instruction, long or short) is not seen. Gains past the mean of the SMs are bounded by the warps that an SM
lacks while one long block is left there.

## Source

Kernel Profiling Guide, Workload Distribution.
"""

from __future__ import annotations

from kscope.features.facts import Facts
from kscope.model.contract.analysis import Remedy
from kscope.rules._shared.blocks.idle_warps import sms_without_work
from kscope.rules.base import PASSED, CounterRule, Outcome, derived, measured, percent

ORDER = "long blocks first"
QUEUE = f"{ORDER}, smaller pieces, a work queue or persistent blocks, split skewed rows"
PIECES = "smaller pieces, dealt in turn so that each block has long and short ones; split skewed rows over more threads"
SURE, LONGEST = 0.6, 0.35
"""LONGEST (judged): all blocks run at once and no SM is full. Of four such findings on labelled kernels, pairs.rows and
three public programs, two name what held the kernel up, and pairs.rows gained 1.18x of the 1.34x promised."""


class LoadImbalance(CounterRule):
    code = "GRD403"
    slug = "load-imbalance"
    title = "Work is uneven across SMs"
    regime = "overhead"
    needs = ("sm__cycles_active.max", "sm__cycles_active.avg")
    collect = "--section WorkloadDistribution"

    def check(self, facts: Facts) -> Outcome:
        launch = facts.counters.launch
        left = launch.imbalance / max(1.0, min(launch.shape, launch.imbalance))
        if left < 1.1 or launch.outside > 0.4 or launch.even:
            return PASSED
        # Fewer warps than SMs do the work: the other SMs have none to be given (GRD401 says how to make more).
        if sms_without_work(facts):
            return PASSED
        at_once, unit = launch.waves <= 1, facts.counters.busiest
        busiest = min(1.0, unit.load * (launch.uneven or launch.imbalance)) if unit is not None else 1.0
        work_fills = facts.estimate.saturation(busiest) if at_once else 1.0
        work, more = [], ""
        if launch.uneven is not None:
            work = [derived("instructions of the SM that executes most over the mean", launch.uneven, "")]
            more = f" One SM executes {launch.uneven:.2f} times the instructions of the mean."
        return self.finding(
            title=f"The busiest SM works {launch.imbalance:.2f} times the mean",
            why=(
                f"SMs are active {percent(launch.active)} of the time on average and {percent(launch.active_max)} at "
                f"most; neither the grid's size nor its last wave explains it: blocks take uneven time.{more}"
            ),
            fix=PIECES if at_once else QUEUE,
            evidence=[
                measured(facts, "sm__cycles_active.max"),
                measured(facts, "sm__cycles_active.avg"),
                derived("imbalance left after tail and grid", left, "", ""),
                *work,
            ],
            estimate=facts.estimate.balance(left, "even work", fuller=self._fuller(facts)),
            remedies=[Remedy(step=ORDER, applies=False, why="all blocks start at once")] if at_once else [],
            confidence=round(LONGEST + (SURE - LONGEST) * work_fills, 2),
        )

    def _fuller(self, facts: Facts) -> float:
        """An SM that works on one long block is at work, with few of its warps: of 16 % of the time on a mean SM, a
        third of the warps each, smaller pieces left a twelfth (a public product of sparse rows, 12.3x)."""
        occupancy = facts.counters.occupancy
        if occupancy is None or not occupancy.achieved or facts.counters.launch.waves < 1:
            return 1.0
        return max(1.0, occupancy.theoretical / occupancy.achieved)
