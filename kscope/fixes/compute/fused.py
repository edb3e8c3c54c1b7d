"""Products and sums that were kept apart: one fused multiply-add each."""

from __future__ import annotations

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.rewrite import Call, calls_of, changed, places, replaced
from kscope.fixes.given.setting import Asked
from kscope.model.contract.fixes import Condition, Fix, Proof


def fixes(asked: Asked) -> list[Fix]:
    code = asked.setting.code
    sums = code.ran(code.where(lambda ins, op: ins.opcode == "FADD"))
    products = {i: _products(asked, i) for i in sums}
    pairs = [i for i in sums if products[i]]
    edits = changed(places(asked.setting, pairs), as_fma)
    if not edits or not pairs:
        return []
    lines = {e.line for e in edits}
    reached = [i for i in pairs if code[i].line in lines]
    before = total(code.executed, reached) + total(code.executed, {products[i][0] for i in reached})
    return [
        Fix(
            kind="hoist",
            title="one fused multiply-add for each product and sum",
            language="cuda",
            edits=edits,
            conditions=[
                proved("each product is used by one sum alone", "code", reached, "def-use"),
                Condition(holds="one rounding instead of two", state="check", why="results differ in the last bit"),
            ],
            proof=[
                Proof(
                    what="warp instructions of these products and sums", before=before,
                    after=total(code.executed, reached), unit="inst", how=f"{len(reached)} pairs, executions counted",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _products(asked: Asked, index: int) -> list[int]:
    """FMULs whose only use is this sum."""
    code = asked.setting.code
    made = {p for ps in code.defuse.sources(index).values() if len(ps) == 1 for p in ps}
    return sorted(p for p in made if code[p].opcode == "FMUL" and set(code.defuse.consumers(p)) == {index})


def as_fma(text: str) -> str:
    """`__fadd_rn(__fmul_rn(a, b), c)`, either way round, as `fmaf(a, b, c)`."""

    def fused(call: Call) -> str | None:
        if len(call.arguments) != 2:
            return None
        for product, other in (call.arguments, call.arguments[::-1]):
            inner = calls_of(product, "__fmul_rn")
            whole = bool(inner) and inner[0].start == 0 and inner[0].end == len(product)
            if whole and len(inner[0].arguments) == 2:
                return f"fmaf({inner[0].arguments[0]}, {inner[0].arguments[1]}, {other})"
        return None

    return replaced(text, "__fadd_rn", fused)
