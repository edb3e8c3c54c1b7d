"""Functions of doubles, on purpose, are what the kernel spends its time on.

## What it does

Finds kernels that compute in double on double data (nothing is converted by accident: that is CMP203's question) and in
which calls of pow, exp, log, sin, division or square root make up most of the FP64 instructions. Says which, how many
and what float versions, or a formula without pow, would bring. Where calls get what constants give by an index, and no
other data (quotients of factorials), says what a table of their results would bring.

## Why it costs time

A call of `pow` takes about 100 FP64 instructions, `log` 31, `exp` 18, a division 9, on a pipe that has half the rate of
FP32 on data-centre chips and 1/64 of it on others.

## Evidence

Executions of the coefficients and instructions that only these functions have, FP64 instructions, the FP64 pipe's
utilisation, samples at the double arithmetic and at what def-use ties to it.

## Fix

A formula without `pow`: `x * sqrt(x)` for the power 1.5, products for whole powers; one reciprocal instead of several
divisions by one value; float functions (`powf`, `expf`) where 24 bits suffice, with sums in double if they need it.
A table of quotients or reciprocals in shared memory, in place of the table of constants that they are made of.

Before:

    y[i] = exp(-x) / pow(t, 1.5);

After:

    y[i] = exp(-x) / (t * sqrt(t));

## In SASS

The polynomial of pow's logarithm; the root is one `MUFU` and a few `DFMA`.

Before (capture weights.pow):

    UMOV UR6, 0x7d2cafe2
    ...
    UMOV UR7, 0x3eb0f5ff
    ...
    MUFU.RCP64H R17, R13

After (capture weights.root):

    MUFU.RSQ64H R11, R13

## When it is wrong

Where the result needs 53 bits, float functions are no way out; the formula is. A kernel that waits for memory gains
nothing: the estimate is capped by the busiest unit. A table is promised where calls are many times what constant memory
holds; how long it gets, the code does not tell.

## Source

SASS of the CUDA 13 math library (kscope/features/patterns/double_math.py); FP64 rates: kscope/arch/opcodes.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.features.facts import DOUBLE, Code, Facts, Scale, total
from kscope.model.contract.analysis import Estimate
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

if TYPE_CHECKING:
    from kscope.features.facts import DoubleCall

SELDOM = 200  # FP64 instructions a conversion from float, below which the doubles are CMP203's question
MOSTLY = 0.5  # of the FP64 instructions, from which functions are what the doubles are for
LEAST = 0.1  # of all samples
SHORTER = 1.1  # times fewer instructions in float, conversions in and out counted. Fitted on weights.root: 1.12x
PRODUCTS = 0.12  # of pow's FP64 instructions that a product with a root takes: 12 of 96
ENTRIES = 8192  # doubles that a bank of constants holds
REPEATS = 4  # calls an entry, from which a table is worth its filling (judged)
LOOKED_UP = 3  # instructions instead of a function: an address, a load from shared memory, a product
TABLE = "a table of results (quotients, reciprocals) in shared memory: what is divided follows from constants by index"
FORMULA = {
    "pow": "a formula without pow (x * sqrt(x) for the power 1.5, products for whole powers)",
    "division": "one reciprocal instead of several divisions by the same value",
    "exp": "exp of a sum as a product of what does not change and what does",
    "log": "one log of a product instead of a sum of logs",
    "sin or cos": "sincos for both at once, sinpi where the argument is a multiple of pi",
    "square root": "rsqrt where the root divides",
}


class DoublePrecisionFunctions(ProfiledRule):
    code = "CMP211"
    slug = "double-precision-functions"
    title = "Functions of doubles fill the kernel"
    regime = "compute"

    def check(self, facts: Facts, code: Code) -> Outcome:
        calls = facts.patterns.double_calls
        double = code.ran(code.where(lambda ins, op: ins.opcode in DOUBLE))
        done, turns = total(code.executed, double), total(code.executed, facts.patterns.widened[0])
        accident = turns * SELDOM >= done and facts.profile.doubles_in_memory(double) < turns
        if not calls or accident or _made_up(calls, done) < MOSTLY:
            return PASSED
        region = facts.patterns.of_doubles(double)
        share = code.blamed_share(region)
        if share < LEAST:
            return PASSED
        main, rate = calls[0], code.classes[double[0]].issue
        single = _estimate(facts, share, 1 / (max(1.0, rate) * SHORTER), code.issue_share(region), 0.0)
        part = min(1.0, main.instructions / done)
        products = 1 - part * (1 - PRODUCTS)
        formula = None
        if main.function == "pow":
            formula = _estimate(facts, share, products, code.issue_share(region), products)
        looked_up, tabled = _looked_up(facts, code)
        fp64 = facts.counters.units.get("fp64")
        rows = [derived("speed-up with float functions", single.speedup, "x", "where 24 bits suffice")]
        if formula is not None:
            rows.append(derived("speed-up without pow, in double", formula.speedup, "x", "a product and a root"))
        fixes = [FORMULA[main.function], "float functions where 24 bits suffice"]
        best = formula or single
        if looked_up is not None:
            rows.append(derived("speed-up with a table of results", looked_up.speedup, "x", "the same doubles"))
        if looked_up is not None and looked_up.speedup > best.speedup:
            best, fixes = looked_up, [TABLE, *fixes]
        return self.finding(
            title=f"Doubles on purpose: {_named(calls)} take {percent(share)} of the time",
            why=(
                f"{_listed(calls)} in double make up {percent(_made_up(calls, done))} of {done:,.0f} FP64 "
                f"instructions; {percent(share)} of all samples are theirs, the FP64 pipe is "
                f"{percent(fp64.busy if fp64 else 0.0)} busy."
                + (f" {tabled:,.0f} calls ask for what follows from constants by index alone." if tabled else "")
            ),
            fix="; ".join(fixes),
            evidence=[
                *(derived(f"{c.function} in double", c.calls, "inst", "by what only its code holds") for c in calls),
                derived("FP64 instructions", done, "inst", "DADD, DMUL, DFMA, ..."),
                *rows,
                measured(facts, "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active"),
            ],
            locations=code.locations([i for c in calls for i in c.anchors]),
            estimate=best,
            confidence=0.4 if best is single else 0.6,
        )


def _looked_up(facts: Facts, code: Code) -> tuple[Estimate | None, float]:
    """(what a table of results brings, calls that it answers), where more are asked for than it can have entries."""
    found = facts.patterns.tabled
    if found is None or total(code.threads, found.anchors) < REPEATS * ENTRIES:
        return None, 0.0
    calls, members = total(code.executed, found.anchors), list(found.members)
    kept = min(1.0, LOOKED_UP * calls / total(code.executed, members))
    estimate = facts.estimate.relieve(
        code.blamed_share(members), kept, facts.profile.demands_after(members, kept),
        latency=facts.estimate.floor_without(members, kept),
    )  # fmt: skip
    return estimate, calls


def _made_up(calls: list[DoubleCall], done: float) -> float:
    """Share of the FP64 instructions that functions are, 0..1."""
    return min(1.0, sum(c.instructions for c in calls) / done)


def _named(calls: list[DoubleCall]) -> str:
    return " and ".join(c.function for c in calls[:2])


def _listed(calls: list[DoubleCall]) -> str:
    return ", ".join(f"{c.calls:,.0f} calls of {c.function}" for c in calls)


def _estimate(facts: Facts, share: float, kept: float, issue: float, pipe: float) -> Estimate:
    """pipe: what is left of the FP64 pipe's work."""
    rest = 1 - issue * (1 - kept)
    scale: Scale = {"fp64": pipe, "tensor": pipe, "instructions": rest}
    return facts.estimate.relieve(share, kept, scale, latency=kept)
