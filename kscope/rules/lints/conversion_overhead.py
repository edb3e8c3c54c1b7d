"""CMP207 on machine code: conversions that take a large part of a loop."""

from __future__ import annotations

from kscope.features.facts import CONVERSIONS, CodeFacts, Listing
from kscope.rules.base import PASSED, Outcome, derived, percent
from kscope.rules.compute.conversion_overhead import ConversionOverhead
from kscope.rules.lint import Lint

PART = 0.2  # of a loop's instructions
FEW = 4


class ConversionOverheadLint(Lint):
    of = ConversionOverhead

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        every = set(facts.patterns.conversions)
        worst: tuple[float, list[int]] = (0.0, [])
        for loop in code.cfg.loops:
            mine = [i for i in loop.instructions if i in every]
            if loop.innermost and len(mine) >= FEW:
                worst = max(worst, (len(mine) / len(loop.instructions), mine))
        share, members = worst
        if share < PART:
            return PASSED
        heavy = [i for i in members if code.classes[i].pipe == "xu"]
        return self.found(
            code, members,
            why=(
                f"{len(members)} conversions are {percent(share)} of the loop's instructions; {len(heavy)} of them go "
                "through the special-function (XU) pipe."
            ),
            fix="keep one type; packed conversions (x2); magic-number unpacking of small integers; convert once",
            evidence=[derived("conversions in the loop", len(members), "inst", ", ".join(CONVERSIONS))],
            severity="major" if heavy else "minor",
            confidence=0.7,
        )  # fmt: skip
