"""CMP201 on machine code: a matrix product by multiply-adds, without a tensor instruction."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.features.facts import FMA_OPCODES, ChipFacts, CodeFacts, FmaLoop, Listing, total
from kscope.rules.base import PASSED, Outcome, derived, percent
from kscope.rules.compute.tensor_cores_idle import BY_OPCODE, TensorCoresIdle, inputs
from kscope.rules.lint import Lint

PART = 0.15  # of the function's weighted instructions, below which a few multiply-adds are no matrix product


class TensorCoresIdleLint(Lint):
    of = TensorCoresIdle

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        if code.program.sm < 70 or code.where(lambda ins, op: op.pipe == "tensor" and ins.opcode != "HFMA2"):
            return PASSED
        fmas = code.where(lambda ins, op: ins.opcode in FMA_OPCODES)
        if not fmas or total(code.executed, fmas) < PART * code.all_executed:
            return PASSED
        loops = [lp for lp in facts.patterns.fma_loops if lp.opcode in BY_OPCODE and lp.both]
        loops = [lp for lp in loops if code.cfg.depth[lp.fma_indices[0]]]
        if _few(code, loops):
            return PASSED  # before their addresses are computed
        loops = [lp for lp in loops if _shares(facts, lp.loads)]
        if _few(code, loops):
            return PASSED
        main = loops[0]
        half = all(code.classes[i].bytes == 2 for i in main.loads)
        precise = BY_OPCODE[main.opcode] == "fp32" and not half
        return self.found(
            code, main.fma_indices,
            title=f"{main.opcode} does a matrix product; the function has no tensor instruction",
            why=(
                f"{len(main.fma_indices)} {main.opcode} of the loop ({percent(main.issue)} of it) "
                "multiply two loaded factors into a carried sum."
            ),
            fix="mma.sync / wgmma / tcgen05 / tl.dot" + (inputs(ChipFacts(code.program.sm)) if precise else ""),
            evidence=[
                derived("multiply-adds on two loaded factors", len(main.fma_indices), "inst", "by def-use"),
                derived("words loaded a multiply-add", main.words_per_fma, "", "a lane's 4-byte words"),
            ],
            severity="minor",
            confidence=0.6 if precise else 0.75,
        )  # fmt: skip


def _few(code: Listing, loops: Sequence[FmaLoop]) -> bool:
    return not loops or sum(lp.fmas for lp in loops) < PART * code.all_executed


def _shares(facts: CodeFacts, loads: Sequence[int]) -> bool:
    """Whether lanes share loaded factors: through shared memory, or by reading the same words. A product of matrices
    does; a dot product of two streams uses each word once."""
    if any(facts.code.classes[i].space == "shared" for i in loads):
        return True
    addresses = (facts.lanes.addresses(i) for i in loads)
    return any(isinstance(a, int) or (a is not None and len(set(a)) < len(a)) for a in addresses)
