"""CMP206 on machine code: multiplies that feed one add and nothing else."""

from __future__ import annotations

from kscope.features.facts import PAIRS, CodeFacts, Listing
from kscope.rules.base import PASSED, Outcome, derived, percent
from kscope.rules.compute.missing_fma import MissingFma
from kscope.rules.lint import Lint, where_in_loops


class MissingFmaLint(Lint):
    of = MissingFma

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        pairs = facts.patterns.unfused
        share = code.issue_share(pairs)
        if share < 0.03 or len(pairs) < 2:
            return PASSED
        first = code[pairs[0]].opcode
        return self.found(
            code, pairs,
            why=(
                f"{len(pairs)} {first} feed one {PAIRS[first]} each and nothing else, {where_in_loops(code, pairs)}: "
                f"{percent(share)} of the function by weight would go."
            ),
            fix="fmaf(), no -fmad=false, no __fmul_rn/__fadd_rn; reassociate so that products meet sums",
            evidence=[derived("unfused pairs", len(pairs), "inst", "a multiply with one consumer, an add")],
            confidence=0.8,
        )  # fmt: skip
