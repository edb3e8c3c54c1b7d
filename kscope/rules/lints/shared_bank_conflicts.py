"""MEM103 on machine code: the conflict degree of addresses that follow from the lane number."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing
from kscope.rules.base import PASSED, Missing, Outcome, derived
from kscope.rules.lint import Lint, where_in_loops
from kscope.rules.memory.shared_bank_conflicts import SharedBankConflicts


class SharedBankConflictsLint(Lint):
    of = SharedBankConflicts

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        accesses = code.ran(facts.lanes.shared_accesses)
        known = facts.lanes.conflicts
        if accesses and not known:
            return Missing("no shared-memory address follows from the lane number: it depends on loaded or launch data")
        bad = [c for i, c in known.items() if c.ways >= 2 and code.executed[i] > 0]
        if not bad:
            return PASSED
        worst = max(bad, key=lambda c: (code.executed[c.index], c.ways))
        members = [c.index for c in bad]
        x, y, _ = worst.block
        # With one row of threads the lane is threadIdx.x; a second index needs an assumption about the row length.
        assumed = "" if y == 1 else f" for blocks {x} threads wide"
        return self.found(
            code, members,
            title=f"{code[worst.index].name} takes {worst.wavefronts} wavefronts where {worst.ideal} would do",
            why=(
                f"{len(bad)} of {len(accesses)} shared accesses conflict{assumed}, {where_in_loops(code, members)}: "
                f"the lanes' addresses, computed from the code, put {worst.ways:.0f} different words into one bank."
            ),
            fix="pad the row by one access width (t[32][33]) or swizzle the column with the row",
            evidence=[
                derived("wavefronts an execution", worst.wavefronts, "wavefront", code[worst.index].text),
                derived("without conflict", worst.ideal, "wavefront", "the same width"),
            ],
            confidence=0.9 if y == 1 else 0.75,
            places=sorted(members, key=lambda i: (-code.executed[i], -known[i].ways, i)),
        )  # fmt: skip
