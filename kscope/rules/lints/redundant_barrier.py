"""LAT309: barriers with no memory access since the one before."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing
from kscope.rules.base import PASSED, Outcome, counted, derived
from kscope.rules.latency.redundant_barrier import RedundantBarrier
from kscope.rules.lint import Lint, where_in_loops


class RedundantBarrierLint(Lint):
    of = RedundantBarrier

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        found = facts.patterns.redundant_barriers
        if not found:
            return PASSED
        every = code.ran(code.where(lambda ins, op: ins.opcode == "BAR" and "SYNC" in ins.mods))
        return self.found(
            code, found,
            title=f"{len(found)} of {len(every)} block-wide barriers order nothing",
            why=(
                f"On every path to {counted(len(found), 'barrier')}, {where_in_loops(code, found)}, no memory is "
                "touched since the barrier before: the first one has already ordered everything."
            ),
            fix="remove the second barrier of each pair",
            evidence=[derived("barriers with nothing to order", len(found), "inst", "BAR.SYNC, over all paths")],
            confidence=0.9,
        )  # fmt: skip
