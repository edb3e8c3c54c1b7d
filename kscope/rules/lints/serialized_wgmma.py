"""CMP209 on machine code: loops that wait for every wgmma."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing
from kscope.model.operand import ends_with
from kscope.rules.base import PASSED, Outcome, derived
from kscope.rules.compute.serialized_wgmma import FEW, SerializedWgmma
from kscope.rules.lint import Lint


class SerializedWgmmaLint(Lint):
    of = SerializedWgmma

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        for number, loop in enumerate(code.cfg.loops):
            body = [i for i in loop.instructions if code.executed[i] > 0]
            products = [i for i in body if code[i].opcode.endswith("GMMA")]
            # Only a wait for everything (0 groups left) empties the pipe.
            waits = [i for i in body if "wgmma_wait" in code.classes[i].kind and ends_with(code[i].operands, 0)]
            if not loop.innermost or not products or len(products) > FEW * len(waits):
                continue
            overlap = [i for i in body if "wgmma_wait" in code.classes[i].kind and i not in waits]
            if overlap:
                continue
            return self.found(
                code, [*products, *waits],
                why=(
                    f"{len(products)} {products and code[products[0]].opcode} of loop {number + 1} are followed by "
                    f"{len(waits)} waits for all of them: none is in flight while the next one starts."
                ),
                fix="several groups in flight (wgmma.wait_group 1 or more), accumulators untouched in between",
                evidence=[derived("products a wait", len(products) / len(waits), "inst", "in the loop, by the code")],
                confidence=0.85,
                places=sorted([*products[:3], *waits[:3]]),
            )  # fmt: skip
        return PASSED
