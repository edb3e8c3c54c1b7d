"""Accurate math functions cost many instructions or saturate the special-function pipe.

## What it does

Finds each call of an accurate float function by an instruction that only this function has (`FCHK` of a division, the
rest of log2 e of `expf`, 2/pi of `sinf`), and with it the instructions from its arguments to its result: range
reduction, correction, tests and slow paths. Says which functions they are, what a fast version of each alone would
bring, and whether an argument stays the same, or is the same in all threads (`powf(b, t)` of a parameter and a loop
counter), so that the work can be done once, or whether a square root is only compared. Knows `powf` by its
polynomials, and its exponent where that is a constant, and a division of two halves, which takes a reciprocal of its
own, a product and a test for subnormal quotients each time. Of `hypotf`, `atan2f`, `atanf`, `asinf`, `acosf`, `erff`
and `sinpif` the library has no fast version worth the name: there a formula, a shorter polynomial, or a comparison
without the angle is the fast one.

## Why it costs time

`MUFU` runs at an eighth of the FP32 rate. The accurate `expf`, `sinf`, `powf`, division and square root add 5 to 40
FP32 and integer instructions to each, and branches to slow paths.

## Evidence

Executed calls of each function, their instructions (def-use), the samples that these are to blame for, the XU pipe's
utilisation.

## Fix

`__expf`, `__sinf`, `__fdividef`, `rsqrtf` where a few ulp do not matter, or `-use_fast_math` for that file; one
reciprocal and multiplications where the divisor stays the same; a table in shared memory of what follows from
parameters and the round alone, filled once by all threads of a block; a polynomial or table; multiplications instead of
`powf` with a small fixed exponent; hoist invariant calls; `exp2f` with a folded factor instead of `expf`. An angle that
is only compared or sorted into bins needs no `atan2f`: the signs of x and y and |y| against a constant times |x| do. A
distance that is only compared needs no root: `x * x + y * y < r * r`.

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

from kscope.features.facts import FUNCTIONS, Code, Facts, total
from kscope.model.contract.analysis import Estimate
from kscope.rules._shared.math_calls import Spent, spent_on
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

MULTIPLY = "multiplications instead of powf: x * x for the square, its square for the fourth power; sqrtf for a half"
FLAG = ["or -use_fast_math for this file"]
SQUARES = "no root: compare the squares (sqrtf(a) < b is a < b * b where neither is negative)"
ALIKE = "values that are the same in all threads"
LEAST = 0.1  # of the samples (of the issue slots' load without them), from which a function is worth a word
NAMED = 0.25  # of all that accurate functions take, from which one of them is named in the fix


class SlowMathFunctions(ProfiledRule):
    code = "CMP204"
    slug = "slow-math-functions"
    title = "Accurate math functions dominate the instructions"
    regime = "compute"

    def check(self, facts: Facts, code: Code) -> Outcome:
        spent = sorted(spent_on(facts, code), key=lambda s: -(s.executed - s.fast))
        members = sorted({i for s in spent for i in s.members})
        if not members or _share(facts, code, members) < LEAST:
            return PASSED
        calls, every = sum(s.calls for s in spent), total(code.executed, members)
        whole = Spent("", calls, members, every, sum(s.fast for s in spent))
        priced = [(s, _estimate(facts, code, s)) for s in spent]
        saved = max(1.0, every - whole.fast)
        named = [s for s in spent if s.executed - s.fast >= NAMED * saved] or spent[:1]
        xu = facts.counters.units.get("xu")
        anchors = [c.anchor for c in facts.patterns.accurate_calls] + [p.start for p in facts.patterns.powers]
        of = "all samples" if facts.counters.stalls.samples else "the issue slots"
        return self.finding(
            title=f"Accurate {' and '.join(s.name for s in named)} in {percent(code.issue_share(members))} of the "
            "instructions",
            why=(
                f"{'; '.join(_told(s, e) for s, e in priced)}. They take {every / max(1.0, calls):.0f} instructions a "
                f"call and {percent(_share(facts, code, members))} of {of}; the XU pipe is "
                f"{percent(xu.busy if xu else 0.0)} busy."
            ),
            fix="; ".join([*(_advice(facts, s) for s in named), *FLAG[: any(map(_flagged, named))]]),
            evidence=[
                derived("calls", calls, "inst", "of accurate functions, by the instruction that only they have"),
                derived("instructions of the math functions", every, "inst", "from arguments to results, by def-use"),
                *(derived(f"speed-up of a fast {s.name} alone", e.speedup, "x", "") for s, e in priced),
                measured(facts, "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"),
            ],
            locations=code.locations(code.ran(anchors)),
            estimate=_estimate(facts, code, whole),
            confidence=0.6,
        )


def _share(facts: Facts, code: Code, members: list[int]) -> float:
    """Of the samples: those that these instructions are to blame for. Without samples, of the issue slots."""
    if facts.counters.stalls.samples:
        return code.blamed_share(members)
    return code.issue_share(members) * (facts.counters.units["issue"].load if "issue" in facts.counters.units else 0.0)


def _estimate(facts: Facts, code: Code, spent: Spent) -> Estimate:
    return facts.estimate.relieve(
        _share(facts, code, spent.members),
        spent.kept,
        facts.profile.demands_after(spent.members, spent.kept),
        latency=facts.estimate.floor_without(spent.members, spent.kept),
    )


def _told(spent: Spent, alone: Estimate) -> str:
    """A function with its calls and what a fast version of it alone brings."""
    of = "by" if spent.division else "of"
    steady = f" ({percent(spent.steady / spent.calls)} by a value that does not change)" if spent.steady else ""
    same = f" ({percent(spent.alike / spent.calls)} {of} {ALIKE})" if spent.alike else ""
    only = f" ({percent(spent.compared / spent.calls)} only compared)" if spent.compared else ""
    return f"{spent.calls:,.0f} calls of {spent.name}{steady}{same}{only}, {alone.speedup:.2f}x alone"


def _flagged(spent: Spent) -> bool:
    return 2 * spent.compared <= spent.calls and (spent.name not in FUNCTIONS or FUNCTIONS[spent.name].flag)


def _advice(facts: Facts, spent: Spent) -> str:
    if 2 * spent.alike > spent.calls:
        what = "reciprocals of divisors" if spent.division else f"{spent.name} of arguments"
        return f"{what} that are the same in all threads: once a round, into a table in shared memory"
    if spent.name == "pow":
        fixed = [p for p in facts.patterns.powers if p.multiplies]
        exponents = {p.exponent for p in fixed if p.exponent is not None}
        if 2 * len(fixed) > len(facts.patterns.powers):
            return f"{MULTIPLY} (its exponent is {', '.join(f'{e:g}' for e in sorted(exponents))})"
        return "__powf, or exp2f(y * log2f(x))"
    if 2 * spent.compared > spent.calls:
        return SQUARES
    if 2 * spent.roots > spent.calls:
        return "a * rsqrtf(b) for a / sqrtf(b)"
    if 2 * spent.steady > spent.calls and spent.name != "division of halves":
        if spent.name == "division":
            return "one reciprocal, then multiplications: the divisor stays the same"
        return f"{spent.name} once before the loop: its argument stays the same"
    return f"{spent.name}: {FUNCTIONS[spent.name].advice}"
