"""LAT310 on machine code: bulk copies whose operands the compiler could not prove uniform."""

from __future__ import annotations

from kscope.features.facts import SERIAL, CodeFacts, Listing
from kscope.rules.base import PASSED, Outcome, counted, derived
from kscope.rules.latency.lane_serial_bulk_copy import COPIES, LaneSerialBulkCopy
from kscope.rules.lint import Lint


class LaneSerialBulkCopyLint(Lint):
    of = LaneSerialBulkCopy

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        serial = [loop for n, loop in enumerate(code.cfg.loops) if facts.patterns.loop_kinds.get(n) == SERIAL]
        copies = [i for loop in serial for i in loop.instructions if code[i].opcode in COPIES]
        if not copies:
            return PASSED
        again = [i for i in copies if code.cfg.depth[i] > 1]
        where = f", {len(again)} of them in a loop of the program" if again else ""
        return self.found(
            code, copies,
            title=f"{counted(len(copies), 'bulk copy')} in a loop that serves one lane at a time",
            why=(
                f"The compiler could not prove the operands of {counted(len(copies), 'bulk copy')} uniform{where}: "
                "ELECT, the copy and BRA.U.ANY go round once for each lane that arrives, where one copy would do."
            ),
            fix=(
                "let elect.sync choose the lane (cute::elect_one_sync), not threadIdx.x == 0: the compiler then knows "
                "that there is one; addresses from kernel parameters or __shfl_sync(x, 0)"
            ),
            evidence=[derived("bulk copies in such loops", len(copies), "inst", "ELECT and BRA.U.ANY around them")],
            severity="minor" if again else "info",
            confidence=0.7,
        )  # fmt: skip
