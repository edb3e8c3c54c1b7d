"""Multiplies feed adds that could be one fused multiply-add.

## What it does

Finds `FMUL` (`DMUL`, `HMUL2`) whose result goes to nothing but one `FADD` (`DADD`, `HADD2`).

## Why it costs time

Two issue slots, two trips through the pipe and twice the latency for what one FMA does, more precisely too.

## Evidence

Executions of such pairs (def-use: a single consumer), their share of issue, the FMA pipe's utilisation.

## Fix

Remove `-fmad=false` and `__fmul_rn`/`__fadd_rn`, write `fmaf(a, b, c)`, reassociate so that the product meets the sum.

Before:

    s = __fadd_rn(s, __fmul_rn(a, b));                             // FMUL, FADD

After:

    s = fmaf(a, b, s);                                             // FFMA

## In SASS

Multiply, then add, on the same register; or one instruction.

Before (capture horner.separate):

    FMUL R7, R2, 0.89999997615814208984
    FMUL R9, R2, 0.80000001192092895508
    FMUL R11, R2, 0.69999998807907104492
    ...
    FMUL R6, R2, R13
    FMUL R8, R2, R7

After (capture horner.fused):

    FFMA R13, R2, R13, 0.30000001192092895508
    FFMA R7, R2, R7, 0.30000001192092895508
    FFMA R9, R2, R9, 0.30000001192092895508
    FFMA R11, R2, R11, 0.30000001192092895508
    FFMA R13, R2, R13, 0.30000001192092895508

## When it is wrong

Code that needs results identical to separate rounding (reproducibility across machines) must keep the pair.

## Source

CUDA Floating Point and IEEE 754 guide, The Fused Multiply-Add.
"""

from __future__ import annotations

from kscope.features.facts import PAIRS, Code, Facts, Scale, total
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent


class MissingFma(ProfiledRule):
    code = "CMP206"
    slug = "missing-fma"
    title = "Multiplies and adds are not fused"
    regime = "compute"

    def check(self, facts: Facts, code: Code) -> Outcome:
        pairs = facts.patterns.unfused
        issue = code.issue_share(pairs)
        if issue < 0.03:
            return PASSED
        share = code.blamed_share(pairs)
        fma = facts.kernel.metrics.get("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed") or 0.0
        kept = 0.5 if not fma else 0.75
        scale: Scale = {"instructions": 1 - issue, "fma": kept, "fmaheavy": kept}
        return self.finding(
            why=(
                f"{total(code.executed, pairs):,.0f} {code[pairs[0]].opcode} feed one {PAIRS[code[pairs[0]].opcode]} "
                f"each and nothing else: {percent(issue)} of all instructions would go."
            ),
            fix="fmaf(), no -fmad=false, no __fmul_rn/__fadd_rn; reassociate so that products meet sums",
            evidence=[
                derived("unfused pairs", total(code.executed, pairs), "inst", "a multiply with one consumer, an add"),
                measured(facts, "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"),
            ],
            locations=code.locations(pairs),
            estimate=facts.estimate.relieve(max(share, issue), 0.0, scale, latency=1 - issue),
            confidence=0.75,
        )
