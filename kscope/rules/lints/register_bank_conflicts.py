"""CMP210: operands that one bank of the register file delivers too slowly."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing, total
from kscope.rules.base import PASSED, Outcome, derived, percent
from kscope.rules.compute.register_bank_conflicts import RegisterBankConflicts
from kscope.rules.lint import Lint, where_in_loops

PART = 0.05  # of a loop's issue cycles, below which lost ones do not matter


class RegisterBankConflictsLint(Lint):
    of = RegisterBankConflicts

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        costs = {c.index: c for c in facts.patterns.bank_costs if code.cfg.depth[c.index]}
        lost = sum(c.cycles * code.executed[i] for i, c in costs.items())
        loops = [i for i, depth in enumerate(code.cfg.depth) if depth]
        if not lost or lost < PART * total(code.executed, loops):
            return PASSED
        reusable = sum(c.reusable for c in costs.values())
        return self.found(
            code, costs,
            why=(
                f"{len(costs)} instructions {where_in_loops(code, costs)} read three registers of one bank: "
                f"{percent(lost / total(code.executed, loops))} more issue cycles. For {reusable} of them a reuse flag "
                "on the instruction before would have saved a read."
            ),
            fix="another order of operands or unrolled statements, another tile shape, fewer values alive",
            evidence=[
                derived("instructions with three operands in one bank", len(costs), "inst", "register number modulo 2"),
                derived("missed reuse", reusable, "inst", "the register was read in the same slot just before"),
            ],
            confidence=0.5,
        )  # fmt: skip
