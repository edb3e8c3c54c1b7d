"""Conversions between number formats take a large part of the instructions.

## What it does

Adds up `F2F`, `F2I`, `I2F`, `F2FP`, `I2FP` and the like by executions, apart from those of integer divisions.

## Why it costs time

Most conversions run on the special-function pipe at an eighth to a quarter of the FP32 rate; even cheap ones take an
issue slot each.

## Evidence

Share of conversions among executed instructions, XU pipe utilisation, where they are.

## Fix

Keep one type through the chain; convert packed (`__half22float2`, `cvt.rn.bf16x2`), for small integers use the
magic-number trick (`PRMT` and `FADD`), load once and convert once.

Before:

    for (c) s += float(x8[c]) * w[c];                              // I2F.S8 an element

After:

    s = __dp4a(x4[c], w4[c], s);                                   // or PRMT-based unpacking

## In SASS

A conversion for every byte before it is multiplied; `IDP` multiplies and adds four bytes.

Before (capture qdot.to_float):

    I2F.S8 R15, R35
    I2F.S8 R24, R36
    ...
    I2F.S8 R18, R35.B2
    ...
    I2F.S8 R32, R36.B2
    I2F.S8 R8, R34.B1

After (capture qdot.dp4a):

    IDP.4A.S8.S8 R15, R6, R24, R15
    ...
    IDP.4A.S8.S8 R14, R28, R14, R33
    ...
    IDP.4A.S8.S8 R26, R26, R6, R15
    ...
    IDP.4A.S8.S8 R15, R11, R24, R26
    ...
    IDP.4A.S8.S8 R15, R28, R25, R15

## When it is wrong

Quantised formats must be converted somewhere: then fewer, packed conversions are the goal, not none.

## Source

CUDA C++ Programming Guide, throughput of native arithmetic instructions (type conversions).
"""

from __future__ import annotations

from kscope.features.facts import CONVERSIONS, Code, Demand, Facts, total
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent


class ConversionOverhead(ProfiledRule):
    code = "CMP207"
    slug = "conversion-overhead"
    title = "Number-format conversions take the issue slots"
    regime = "compute"

    def check(self, facts: Facts, code: Code) -> Outcome:
        xu = facts.counters.units.get("xu")
        members = facts.patterns.conversions  # those of an integer division belong to CMP205
        issue = code.issue_share(members)
        heavy = [i for i in members if code.classes[i].pipe == "xu"]
        of_xu = code.where(lambda ins, op: op.pipe == "xu")
        part = total(code.executed, heavy) / max(1.0, total(code.executed, of_xu)) if heavy else 0.0
        load = xu.load if xu is not None else 0.0
        if issue < 0.1 and load * part < 0.5:
            return PASSED
        share = max(issue, code.blamed_share(members))
        scale: dict[Demand, float] = {"instructions": 1 - 0.6 * issue, "xu": 1 - 0.75 * part}
        return self.finding(
            why=(
                f"{total(code.executed, members):,.0f} conversions are {percent(issue)} of all instructions; the XU "
                f"pipe, where {percent(part)} of its work is conversions, is {percent(xu.busy if xu else 0.0)} busy."
            ),
            fix="keep one type; packed conversions (x2); magic-number unpacking of small integers; convert once",
            evidence=[
                derived("conversions executed", total(code.executed, members), "inst", ", ".join(CONVERSIONS)),
                measured(facts, "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"),
            ],
            locations=code.locations(members),
            estimate=facts.estimate.relieve(share, 0.4, scale, latency=facts.estimate.floor_without(members, 0.4)),
            confidence=0.6,
        )

