"""Accurate math functions cost many instructions or saturate the special-function pipe.

## What it does

Looks at the special-function (XU) pipe, and at the instructions around each `MUFU` that make an accurate function of
it: range reduction, denormal handling, polynomial correction, slow-path calls.

## Why it costs time

`MUFU` runs at an eighth of the FP32 rate. The accurate `expf`, `sinf`, `powf`, division and square root add 5 to 40
FP32 and integer instructions to each, and branches to slow paths.

## Evidence

Executed `MUFU` and the instructions of their computation (def-use cone in the same block), the XU pipe's utilisation.

## Fix

`__expf`, `__sinf`, `__fdividef`, `rsqrtf` where a few ulp do not matter, or `-use_fast_math` for that file; a polynomial
or table; hoist invariant calls; `exp2f` with a folded factor instead of `expf`.

Before:

    y = powf(x, 0.5f) / z;                                         // slow paths, 30 instructions

After:

    y = sqrtf(x) * __frcp_rn(z);

## When it is wrong

The intrinsics lose accuracy outside a range (`__sinf` beyond pi). A kernel that waits for memory gains nothing.

## Source

CUDA C++ Programming Guide, Mathematical Functions (intrinsics, ulp tables).
"""

from __future__ import annotations

from kscope.features.columns import total
from kscope.features.facts import Facts
from kscope.rules.base import PASSED, Outcome, Rule, derived, measured, percent

CONE = 24  # instructions before a MUFU that can be its range reduction


class SlowMathFunctions(Rule):
    code = "CMP204"
    slug = "slow-math-functions"
    title = "Accurate math functions dominate the instructions"
    regime = "compute"
    needs_sass = True

    def check(self, facts: Facts) -> Outcome:
        code, xu = facts.code, facts.units.get("xu")
        assert code is not None
        mufu = code.ran(code.where(lambda ins, op: ins.opcode == "MUFU" and not any(m.endswith("64H") for m in ins.mods)))
        if not len(mufu) or self._divides_integers(facts, mufu):
            return PASSED
        members = sorted(cone(facts, mufu))
        issue = code.issue_share(members)
        load = xu.load if xu is not None else 0.0
        issuing = facts.units["issue"].load if "issue" in facts.units else 0.0
        share = total(code.samples, members) / max(1.0, total(code.samples))
        if max(load, issue * issuing) < 0.25:
            return PASSED
        calls = total(code.executed, mufu)
        every = total(code.executed, members)
        kept = min(1.0, 2.5 * calls / every)  # an intrinsic is a MUFU and a scaling or two
        pipe = 0.5 if load > 0.7 and kept > 0.7 else 1.0
        scale = {"instructions": 1 - issue * (1 - kept), "fma": 1 - 0.7 * issue, "alu": 1 - 0.7 * issue, "xu": pipe}
        return self.finding(
            why=(
                f"{calls:,.0f} MUFU come with {every - calls:,.0f} instructions of range reduction and correction: "
                f"{percent(issue)} of all instructions. The XU pipe is {percent(xu.busy if xu else 0.0)} busy."
            ),
            fix="__expf, __sinf, __fdividef or -use_fast_math for this function; exp2f with a folded factor; a polynomial",
            evidence=[
                derived("MUFU executed", calls, "inst", ""),
                derived("instructions of the math functions", every, "inst", "def-use cone of each MUFU in its block"),
                measured(facts, "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"),
            ],
            locations=code.locations(mufu),
            estimate=facts.bounds.relieve(max(share, issue), kept * pipe, scale),
            confidence=0.5,
        )

    def _divides_integers(self, facts: Facts, mufu: list[int]) -> bool:
        """MUFU.RCP fed by an integer conversion is integer division: CMP205's."""
        code = facts.code
        assert code is not None
        whole = [i for i in mufu if any(code[p].opcode in ("I2F", "I2FP") for p in _producers(facts, i))]
        return total(code.executed, whole) > 0.5 * total(code.executed, mufu) if whole else False


def _producers(facts: Facts, index: int) -> list[int]:
    assert facts.code is not None
    return [p for producers in facts.code.defuse.sources(index).values() for p in producers]


def cone(facts: Facts, seeds: list[int]) -> set[int]:
    """The instructions that compute with these special functions: arithmetic before and after each in its block,
    along def-use, no memory access among them."""
    code = facts.code
    assert code is not None
    out: set[int] = set(seeds)
    for seed in seeds:
        block = code.cfg.block_of[seed]
        work = [(seed, 0)]
        while work:
            i, depth = work.pop()
            if depth >= 6:
                continue
            near = [*_producers(facts, i), *(code.defuse.consumers(i) if depth < 4 else ())]
            for j in near:
                op = code.classes[j]
                same = code.cfg.block_of[j] == block and abs(j - seed) <= CONE
                if same and j not in out and op.access is None and op.pipe in ("fma", "fmaheavy", "alu", "xu", "fp16"):
                    out.add(j)
                    work.append((j, depth + 1))
    return out
