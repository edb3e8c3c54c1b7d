"""CMP204 on machine code: accurate math functions, told by their range reductions."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing, total
from kscope.model.quoted import quoted
from kscope.rules.base import PASSED, Outcome, counted, derived, percent
from kscope.rules.compute.slow_math_functions import SlowMathFunctions
from kscope.rules.lint import Lint, where_in_loops

LONG = 8  # instructions a call from which a function counts as the accurate one


class SlowMathFunctionsLint(Lint):
    of = SlowMathFunctions

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        seeds = facts.patterns.math_calls
        reductions = [i for i in seeds if facts.patterns.reduces_range(i)]
        if not reductions:
            return PASSED
        members = sorted(facts.patterns.same_computation(seeds))
        double = [i for i in members if code.classes[i].pipe == "fp64"]
        share = code.issue_share(members)
        long = total(code.executed, members) >= LONG * total(code.executed, seeds)
        if not long or share < 0.2 or len(double) > 0.1 * len(members):
            return PASSED
        return self.found(
            code, members,
            why=(
                f"{counted(len(members), 'instruction')}, {where_in_loops(code, members)}, compute "
                f"{counted(len(seeds), 'math function')} or parts of them: accurate versions with range "
                f"reduction ({quoted(code[reductions[0]].text)}) and slow paths, {percent(share)} of the function by "
                "weight."
            ),
            fix="__expf, __sinf, __fdividef or -use_fast_math for this function; exp2f with a folded factor; a table",
            evidence=[
                derived("range reductions", len(reductions), "inst", "constants that only the accurate functions use"),
                derived("instructions of the math functions", len(members), "inst", "tied to them by def-use"),
            ],
            confidence=0.7,
            places=sorted(reductions) + code.hottest(i for i in seeds if i not in reductions),
        )  # fmt: skip
