"""Accurate math functions cost many instructions or saturate the special-function pipe.

## What it does

Looks at the special-function (XU) pipe, and at the instructions around each `MUFU` that make an accurate function of
it: range reduction, denormal handling, polynomial correction, slow-path calls. Knows `powf` by its polynomials, and its
exponent where that is a constant.

## Why it costs time

`MUFU` runs at an eighth of the FP32 rate. The accurate `expf`, `sinf`, `powf`, division and square root add 5 to 40
FP32 and integer instructions to each, and branches to slow paths.

## Evidence

Executed `MUFU` and range-reduction constants, the instructions tied to them by def-use (on the same source line where
lines are known), the XU pipe's utilisation.

## Fix

`__expf`, `__sinf`, `__fdividef`, `rsqrtf` where a few ulp do not matter, or `-use_fast_math` for that file; a
polynomial or table; multiplications instead of `powf` with a small fixed exponent; hoist invariant calls; `exp2f` with
a folded factor instead of `expf`.

Before:

    y = powf(x, 0.5f) / z;                                         // slow paths, 30 instructions

After:

    y = sqrtf(x) * __frcp_rn(z);

## In SASS

The range reduction begins with 2/pi = 0.6366; the intrinsic is one `MUFU`.

Before (capture wave.library):

    FFMA R15, R4, R14, 1
    FMUL R0, R15, 0.63661974668502807617
    ...
    F2I.NTZ R0, R0
    ...
    FFMA R3, R2, -1.5707962512969970703, R15
    FFMA R3, R2, -7.5497894158615963534e-08, R3

After (capture wave.intrinsics):

    MUFU.SIN R10, R10
    @!P3  FMUL R7, R7, R7
    MUFU.SIN R0, R0
    FFMA R5, R17, R8, R6
    MUFU.SIN R18, R11

## When it is wrong

The intrinsics lose accuracy outside a range (`__sinf` beyond pi). A kernel that waits for memory gains nothing.

## Source

CUDA C++ Programming Guide, Mathematical Functions (intrinsics, ulp tables).
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts, total
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

INTRINSIC = 4  # instructions of a fast intrinsic: scaling, MUFU, correction
POWER = 4  # multiplications of a small power, or scaling, lg2, a product and ex2
TESTS = frozenset({"branch", "control", "predicate", "move", "nop"})
MULTIPLY = "multiplications instead of powf: x * x for the square, its square for the fourth power; sqrtf for a half"
LONG = 8  # instructions a call from which a function counts as the accurate one


class SlowMathFunctions(ProfiledRule):
    code = "CMP204"
    slug = "slow-math-functions"
    title = "Accurate math functions dominate the instructions"
    regime = "compute"

    def check(self, facts: Facts, code: Code) -> Outcome:
        xu = facts.counters.units.get("xu")
        seeds = facts.patterns.math_calls
        if not seeds:
            return PASSED
        members = sorted(facts.patterns.same_computation(seeds))
        calls, every = total(code.executed, seeds), total(code.executed, members)
        issue = code.issue_share(members)
        issuing = facts.counters.units["issue"].load if "issue" in facts.counters.units else 0.0
        double = total(code.executed, [i for i in members if code.classes[i].pipe == "fp64"])
        if every < LONG * calls or issue * issuing < 0.2 or double > 0.1 * every:
            return PASSED  # functions of doubles are long anyway: whether they must be double is CMP203's question
        pows = facts.patterns.powers
        inner = {i for p in pows for i in p.seeds}
        least = INTRINSIC * total(code.executed, [i for i in seeds if i not in inner])
        least += POWER * total(code.executed, [p.start for p in pows])
        fixed = [p for p in pows if p.multiplies]
        if pows:
            # powf tests its base and its result: the tests and the ways around go with it.
            around = [i for i in facts.patterns.removed_with(members) if code.classes[i].kind & TESTS]
            members = sorted({*members, *around})
            every = total(code.executed, members)
            issue = code.issue_share(members)
        kept = min(1.0, least / every)
        told = ""
        if fixed:
            told = f" powf is called with the fixed {_listed({p.exponent for p in fixed if p.exponent is not None})}."
        share = max(issue, total(code.samples, members) / max(1.0, total(code.samples)))
        return self.finding(
            why=(
                f"{calls:,.0f} special-function and range-reduction instructions come with {every - calls:,.0f} more: "
                f"{percent(issue)} of all instructions compute math functions, {every / calls:.0f} a call. The XU "
                f"pipe is {percent(xu.busy if xu else 0.0)} busy.{told}"
            ),
            fix=MULTIPLY
            if 2 * len(fixed) > len(pows)
            else "__expf, __sinf, __fdividef or -use_fast_math for this function; exp2f with a folded factor; a table",
            evidence=[
                derived("calls", calls, "inst", "MUFU and range-reduction constants executed"),
                derived("instructions of the math functions", every, "inst", "arithmetic tied to them by def-use"),
                measured(facts, "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"),
            ],
            locations=code.locations(seeds),
            estimate=facts.estimate.relieve(
                share,
                kept,
                facts.profile.demands_after(members, kept),
                latency=facts.estimate.floor_without(members, kept),
            ),
            confidence=0.6,
        )


def _listed(exponents: set[float]) -> str:
    ordered = [f"{e:g}" for e in sorted(exponents)]
    return f"exponent{'s' if len(ordered) > 1 else ''} {', '.join(ordered)}"
