"""CMP205 on machine code: integer divisions by run-time values."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing
from kscope.rules.base import PASSED, Outcome, counted, derived, percent
from kscope.rules.compute.integer_address_overhead import IntegerAddressOverhead, whole
from kscope.rules.lint import Lint, where_in_loops


class IntegerAddressOverheadLint(Lint):
    of = IntegerAddressOverhead

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        seeds = facts.patterns.integer_divisions
        if not seeds:
            return PASSED
        members = [i for i in sorted(facts.patterns.same_computation(seeds)) if whole(code.classes[i])]
        share = code.issue_share(members)
        if share < 0.05:
            return PASSED
        return self.found(
            code, seeds,
            title=f"{counted(len(seeds), 'integer division')} by run-time values",
            why=(
                f"{len(seeds)} divisions or modulos by values unknown to the compiler expand to "
                f"{len(members)} instructions, {percent(share)} of the function by weight, "
                f"{where_in_loops(code, seeds)}."
            ),
            fix="constant or power-of-two divisors; running indices instead of / and %; precomputed reciprocals",
            evidence=[
                derived("division sequences", len(seeds), "inst", "I2F, MUFU.RCP, F2I, IMAD.HI"),
                derived("instructions in them", len(members), "inst", "def-use cone"),
            ],
            confidence=0.9,
        )  # fmt: skip
