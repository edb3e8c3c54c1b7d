"""CMP203 on machine code: double arithmetic on values that were floats."""

from __future__ import annotations

from kscope.features.facts import DOUBLE, CodeFacts, Listing
from kscope.rules.base import PASSED, Outcome, derived
from kscope.rules.compute.accidental_fp64 import AccidentalFp64
from kscope.rules.lint import Lint, where_in_loops


class AccidentalFp64Lint(Lint):
    of = AccidentalFp64

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        turns, double = facts.patterns.widened
        if not turns or not double:
            return PASSED
        every = code.ran(code.where(lambda ins, op: ins.opcode in DOUBLE))
        back = code.ran(code.where(lambda ins, op: ins.opcode == "F2F" and ins.mods[:2] == ("F32", "F64")))
        members = [*turns, *double]
        return self.found(
            code, members,
            why=(
                f"{len(turns)} values are converted from float to double and reach {len(double)} of {len(every)} FP64 "
                f"instructions, {where_in_loops(code, members)}; {len(back)} results go back to float."
            ),
            fix="float literals (0.5f) and float functions (tanhf, expf); keep double only where the result needs it",
            evidence=[
                derived("FP64 instructions on converted floats", len(double), "inst", "by def-use"),
                derived("conversions float/double", len(turns) + len(back), "inst", "F2F.F64.F32, F2F.F32.F64"),
            ],
            confidence=0.9 if back else 0.6,  # a double result is what was asked for
            places=sorted([*turns[:2], *double[:4], *back[:2]]),
        )  # fmt: skip
