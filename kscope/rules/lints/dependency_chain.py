"""LAT303 on machine code: a loop whose carried chain is longer than its instructions take to issue."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing
from kscope.rules.base import PASSED, Outcome, derived
from kscope.rules.latency.dependency_chain import DependencyChain
from kscope.rules.lint import Lint

WARPS = 2.0  # a scheduler, that a chain must need before it is worth a word


class DependencyChainLint(Lint):
    of = DependencyChain

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        # Memory in the loop waits longer than any chain of arithmetic: such loops are not judged by their code.
        slow = [r for r in facts.patterns.recurrences if r.warps >= WARPS and not self._loads(code, r.loop)]
        if not slow:
            return PASSED
        worst = slow[0]
        return self.found(
            code, worst.members,
            why=(
                f"A round of the loop issues in {worst.issue:.0f} cycles, but its chain of {len(worst.members)} "
                f"instructions takes {worst.latency:.0f} until the next round can use the result."
            ),
            fix="independent accumulators (4 or more), combined after the loop; unroll and reassociate; more warps",
            evidence=[
                derived("cycles of the carried chain", worst.latency, "cycle", "fixed latencies"),
                derived("cycles to issue the round", worst.issue, "cycle", "one warp"),
                derived("warps a scheduler that hide it", worst.warps, "warp", "if nothing else were in the way"),
            ],
            severity="minor",
            confidence=0.6,
        )  # fmt: skip

    def _loads(self, code: Listing, loop: int) -> bool:
        return any(code.classes[i].scoreboard for i in code.cfg.loops[loop].instructions)
