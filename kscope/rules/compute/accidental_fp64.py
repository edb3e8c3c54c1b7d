"""Single-precision data is computed in double precision.

## What it does

Finds FP64 arithmetic that is fed by conversions from single precision (or whose results are converted back), the sign
of a double literal or a double math function in float code.

## Why it costs time

The FP64 pipe runs at half the FP32 rate on data-centre chips and at 1/64 on others; double math functions are longer,
and values take two registers each.

## Evidence

`F2F.F64.F32` and `F2F.F32.F64` beside `DADD`/`DMUL`/`DFMA`/`MUFU.*64H` (executions), the FP64 pipe's utilisation,
samples at it and at what def-use ties to it (constants, tests, integer halves).

## Fix

Write float literals (`0.5f`) and float functions (`tanhf`, `sqrtf`); compile with `-Wdouble-promotion` where the host
compiler offers it.

Before:

    x = 0.5 * x * (1.0 + tanh(0.79788 * x));                       // F2F.F64.F32, DFMA ...

After:

    x = 0.5f * x * (1.0f + tanhf(0.79788f * x));                   // FFMA

## In SASS

`F2F.F64.F32` and double arithmetic between float loads and stores; with float literals only FP32 is left.

Before (capture fp64_literal.slow):

    F2F.F64.F32 R4, R5
    ...
    DMUL R6, R4, UR6
    DMUL R6, R4, R6
    DFMA R6, R4, R6, R4
    DMUL R6, R6, UR8

After (capture fp64_literal.fast):

    FMUL R0, R5, 0.044714998453855514526
    FMUL R0, R5, R0
    FFMA R0, R5, R0, R5
    FMUL R5, R5, 0.5
    FMUL R6, R0, 0.79788458347320556641

## When it is wrong

Deliberate double accumulation of float data looks the same: keep it where the precision is needed, or use
compensated FP32 sums.

## Source

CUDA C++ Best Practices Guide, arithmetic instructions; FP64 rates: kscope/arch/opcodes.toml.
"""

from __future__ import annotations

from kscope.features.facts import DOUBLE, Code, Facts, Scale, total
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

SELDOM = 200  # FP64 instructions a conversion, above which the doubles are no accident
SHORTER = 1.5  # a double math function takes about this many times the instructions of its float version


class AccidentalFp64(ProfiledRule):
    code = "CMP203"
    slug = "accidental-fp64"
    title = "Float data is computed in double precision"
    regime = "compute"

    def check(self, facts: Facts, code: Code) -> Outcome:
        double = code.where(lambda ins, op: ins.opcode in DOUBLE)
        turns = code.where(lambda ins, op: ins.opcode == "F2F" and "F64" in ins.mods and "F32" in ins.mods)
        if not len(double) or not len(turns) or not total(code.executed, turns):
            return PASSED
        if total(code.executed, turns) * SELDOM < total(code.executed, double):
            return PASSED  # double arithmetic on doubles, with a conversion at its edges: meant so
        if facts.profile.doubles_in_memory(double) >= total(code.executed, turns):
            return PASSED  # the data is double, and some floats come in: meant so (CMP211)
        region = facts.patterns.of_doubles([*double, *turns])
        issue = code.issue_share(region)
        share = code.blamed_share(region)
        if min(issue, share) < 0.05:
            return PASSED
        rate = code.classes[int(double[0])].issue
        kept = 1 / (max(1.0, rate) * SHORTER)
        fp64 = facts.counters.units.get("fp64")
        rest = 1 - issue * (1 - kept)
        scale: Scale = {"fp64": 0.0, "instructions": rest, "xu": 0.6, "branches": 0.5, "tensor": 0.0}
        return self.finding(
            why=(
                f"{total(code.executed, double):,.0f} FP64 instructions work on values converted from float "
                f"({total(code.executed, turns):,.0f} conversions). The FP64 pipe is "
                f"{percent(fp64.busy if fp64 else 0.0)} busy, and {percent(issue)} of all instructions serve the "
                "doubles."
            ),
            fix="float literals (0.5f) and float functions (tanhf, expf); keep double only where the result needs it",
            evidence=[
                derived("FP64 instructions", total(code.executed, double), "inst", "DADD, DMUL, DFMA, ..."),
                derived("conversions float/double", total(code.executed, turns), "inst", "F2F.F64.F32, F2F.F32.F64"),
                measured(facts, "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active"),
            ],
            locations=code.locations(turns, 2) + code.locations(double, 3),
            estimate=facts.estimate.relieve(share, kept, scale, latency=kept),
            confidence=0.85,
        )
