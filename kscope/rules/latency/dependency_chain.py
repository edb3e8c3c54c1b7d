"""Each instruction waits for the one before: one chain, too few warps to cover it.

## What it does

Finds loops whose arithmetic forms one carried chain of fixed-latency instructions, with the schedulers idle between
them. A run of dependent instructions that starts anew with each round is none, nor are accumulators side by side.

## Why it costs time

An FMA takes 4 cycles until the next can use its result. One chain in one warp fills a quarter of the issue slots; a
scheduler with few warps has nothing else to issue.

## Evidence

`wait` samples on instructions that depend on themselves around the loop (def-use cycle), free issue slots, warps a
scheduler.

## Fix

Several independent accumulators, combined at the end; unrolling with reassociation; or more warps.

Before:

    for (i...) a = a * x + c;                                      // one chain

After:

    for (i...) { a0 = a0 * x + c; a1 = a1 * x + c; a2 = ...; a3 = ...; }

## In SASS

Each `FFMA` needs the result of the one before (R5, R5, R5); or four registers in turn.

Before (capture dependency_chain.slow):

    FFMA R5, R5, R4, 0.5
    ...
    FFMA R5, R5, R4, 0.5
    ...
    FFMA R5, R5, R4, 0.5
    FFMA R5, R5, R4, 0.5
    FFMA R5, R5, R4, 0.5

After (capture dependency_chain.fast):

    FFMA R7, R7, R4, 0.5
    FFMA R9, R9, R4, 0.5
    FFMA R11, R11, R4, 0.5
    FFMA R5, R5, R4, 0.5
    FFMA R7, R7, R4, 0.5

## When it is wrong

A recurrence that is inherently serial (a fixed-point iteration, z = z^2 + c) has no independent parts: accumulators do
not apply, and the finding says so; several items a thread, or more problems at once, are the way.

## Source

Kernel Profiling Guide, stall reason wait; latencies: kscope/arch/opcodes.toml.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts
from kscope.model.contract.analysis import Remedy
from kscope.model.quoted import quoted
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

ACCUMULATORS = "independent accumulators (4 or more), combined after the loop; unroll and reassociate; more warps"
ITEMS = "several items a thread, their iterations side by side"
SIDE_BY_SIDE = 2.0  # iterations that a thread can carry side by side: each has its own values and its own end
WAVES = 2.0  # from which threads can take two items each and still fill the device
PARALLEL = 4.0  # accumulators after the change: the latency of an FMA in cycles


class DependencyChain(ProfiledRule):
    code = "LAT303"
    slug = "dependency-chain"
    title = "Dependent instructions leave issue slots empty"
    regime = "compute"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        stalls = facts.counters.stalls
        share = stalls.of("wait")
        issuing = facts.kernel.metrics.get("smsp__issue_active.avg.pct_of_peak_sustained_active")
        if share < 0.2 or (issuing is not None and issuing > 75):
            return PASSED
        chain = facts.patterns.carried_chain(code.blamed)
        if not chain:
            return PASSED
        mine = code.blamed_share(chain, "wait") + code.blamed_share(chain, "selected")
        if mine < 0.15:
            return PASSED
        # Of the time that is waiting, the chain's part shrinks with independent chains side by side.
        waiting = max(share, 1 - stalls.of("selected", "not_selected"))
        part = min(1.0, share / waiting)
        fix, chains, others = self._way(facts, code, chain)
        estimate = facts.estimate.overlap(1 / (1 - part + part / chains), alone=True)
        return self.finding(
            why=(
                f"{len(chain)} instructions of the loop form a carried chain, starting with "
                f"{quoted(code[chain[0]].text)}: {percent(share)} of warp time is waiting for a fixed latency, "
                f"and the schedulers issue in {issuing or 0:.0f} % of their cycles."
            ),
            fix=fix,
            evidence=[
                derived("warp time waiting for fixed latency", share, "", "stall reason wait"),
                measured(facts, "smsp__issue_active.avg.pct_of_peak_sustained_active"),
                measured(facts, "sm__warps_active.avg.per_cycle_active"),
            ],
            locations=code.locations(chain),
            estimate=estimate,
            remedies=others,
            pulls=["+registers", "+unrolling"] if fix == ACCUMULATORS else [],
            confidence=0.8 if fix == ACCUMULATORS else 0.5,
        )

    def _way(self, facts: Facts, code: Code, chain: list[int]) -> tuple[str, float, list[Remedy]]:
        """What puts chains side by side, how many, and what does not: a sum falls into parts, an iteration whose next
        value is any other function of this one does not."""
        loop = code.cfg.loop_of[chain[0]]
        ring = facts.patterns.chained(loop) if loop is not None else ()
        if not set(ring) & set(chain):
            return ACCUMULATORS, PARALLEL, []
        why = f"the next value is no sum but a function of this one ({code[ring[0]].opcode})"
        none = [Remedy(step=ACCUMULATORS, applies=False, why=why)]
        waves = facts.counters.launch.waves
        if waves >= WAVES:
            return ITEMS, SIDE_BY_SIDE, none
        few = f"{waves:.2g} waves: every item has a thread of its own already"
        return "more problems at once, or another method", 1.0, [*none, Remedy(step=ITEMS, applies=False, why=few)]

