"""LAT307 on machine code: a loop that starts a copy and waits for it at once."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing
from kscope.rules._shared.tile_rings import remedy, waited
from kscope.rules.base import PASSED, Outcome, derived
from kscope.rules.latency.unpipelined_copy import UnpipelinedCopy
from kscope.rules.lint import Lint


class UnpipelinedCopyLint(Lint):
    of = UnpipelinedCopy

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        copies = facts.patterns.exposed_copies
        if not copies:
            return PASSED
        first = copies[0]
        how = (
            waited(first)
            if first.asynchronous
            else "the tile travels through registers: LDG, then STS of its value, before anything uses an earlier tile"
        )
        return self.found(
            code, [*first.loads, *first.waits],
            why=f"In a loop with barriers {how}: the whole memory latency is exposed, each round.",
            fix=remedy(first),
            evidence=[derived("copies waited for at once", len(first.loads), "inst", code[first.loads[0]].name)],
            confidence=0.8,
            places=sorted([*first.loads[:4], *first.waits[:4]]),
        )  # fmt: skip
