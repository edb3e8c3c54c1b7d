"""CMP202 on machine code: mma.sync for a chip that has wgmma or tcgen05."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing
from kscope.rules.base import PASSED, Outcome, derived
from kscope.rules.compute.legacy_tensor_path import LegacyTensorPath
from kscope.rules.lint import Lint, where_in_loops

NEWER = {90: "wgmma", 100: "tcgen05", 101: "tcgen05", 103: "tcgen05", 110: "tcgen05"}


class LegacyTensorPathLint(Lint):
    of = LegacyTensorPath

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        newer = NEWER.get(code.program.sm)
        old = code.ran(code.where(lambda ins, op: "packed_mma_sync" in op.kind))
        if newer is None or not [i for i in old if code.cfg.depth[i]]:
            return PASSED
        return self.found(
            code, old,
            title=f"{code[old[0]].name} runs where {newer} would",
            why=f"{len(old)} mma.sync, {where_in_loops(code, old)}, on a chip whose tensor peak needs {newer}.",
            fix="wgmma (sm_90) or tcgen05 (sm_100) with operands in shared memory, fed by TMA",
            evidence=[derived("mma.sync instructions", len(old), "inst", code[old[0]].name)],
            severity="minor",
            confidence=0.7,
        )  # fmt: skip
