"""Fences and waits in every round of a loop: one behind it, where the rounds do not need each other's."""

from __future__ import annotations

import re

from kscope.features.sass.columns import total
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Span, kernel_text, loops, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

_FENCE = re.compile(r"(?:if\s*\(\s*\w+\s*\)\s*)?(__threadfence(?:_system|_block)?\s*\(\s*\)\s*;)")
_SIGNAL = re.compile(r"\batomic|\bvolatile\b|__syncthreads|\basm\b|\bwhile\b")


def fences(asked: Asked) -> list[Fix]:
    """A fence after each store: one after the last."""
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    found = code.ran(code.where(lambda ins, op: ins.opcode in ("MEMBAR", "ERRBAR", "CCTL")))
    barriers = [i for i in found if code[i].opcode == "MEMBAR" and code.cfg.loop_of[i] is not None]
    if text is None or not barriers or setting.launch is None:
        return []
    for loop in loops(text.code):
        inside = text.code[slice(*loop.body)]
        here = list(_FENCE.finditer(inside))
        if len(here) != 1 or _SIGNAL.search(inside):
            continue
        (one,) = here
        at = loop.body[0]
        spans: list[Span] = [
            (at + one.start(), at + one.end(), ""), (loop.body[1], loop.body[1], f" {one[1]}")
        ]
        edits = spans_edited(setting, text, spans)
        warps = setting.launch.warps * setting.launch.blocks
        before = total(code.executed, barriers)
        if not edits or before <= warps:
            continue
        return [
            Fix(
                kind="fence",
                title="one fence behind the loop",
                language="cuda",
                edits=edits,
                conditions=[
                    Condition(
                        holds="the loop tells nobody that a round's data are there", state="proved",
                        why="its text has no atomic, no volatile access and no barrier",
                    ),
                    Condition(
                        holds="a fence orders all stores before it", state="assumed", why="CUDA C++ Programming Guide"
                    ),
                    Condition(holds="nobody reads a round's data before the loop has ended", state="check"),
                ],
                proof=[
                    Proof(
                        what="fences that warps execute", before=before, after=warps, unit="inst",
                        how=f"{len(barriers)} in the loop; {warps} warps, one each",
                    )
                ],
                price=asked.finding.estimate,
            )
        ]  # fmt: skip
    return []


_WAIT = re.compile(r"\b(\w*wait\w*)\s*<\s*0\s*>\s*\(\s*\)\s*;|(wgmma\.wait_group\.sync\.aligned\s+)0(?=;)")


def products(asked: Asked) -> list[Fix]:
    """Each wgmma waited for at once: one may stay in flight, and all are waited for behind the loop."""
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    issued = code.ran(code.where(lambda ins, op: ins.opcode.endswith("GMMA")))
    ring = {code.cfg.loop_of[i] for i in issued} - {None}
    if text is None or not issued or not ring:
        return []
    writes = code.where(
        lambda ins, op: op.pipe == "tma" or (op.space == "shared" and op.access in ("store", "async_copy"))
    )
    overwritten = [i for i in code.ran(writes) if code.cfg.loop_of[i] in ring]
    if overwritten:
        return []
    for loop in loops(text.code):
        inside = text.code[slice(*loop.body)]
        found = list(_WAIT.finditer(inside))
        if len(found) != 1 or "for" in inside[found[0].end() :]:
            continue
        (one,) = found
        at = loop.body[0]
        name = one[1]
        if name is None:
            continue
        spans: list[Span] = [
            (at + one.start(), at + one.end(), f"{name}<1>();"), (loop.body[1], loop.body[1], f" {name}<0>();")
        ]
        edits = spans_edited(setting, text, spans)
        if not edits:
            continue
        return [
            Fix(
                kind="stages",
                title="one group of products stays in flight while the next is issued",
                language="cuda",
                edits=edits,
                conditions=[
                    Condition(
                        holds="the loop does not write what the products read", state="proved",
                        why="it has no store to shared memory and no copy into it",
                    ),
                    Condition(
                        holds="the loop does not read the sums", state="check",
                        why="the compiler waits by itself where it does",
                    ),
                ],
                proof=[
                    Proof(
                        what="groups of products in flight when the next is issued", before=0, after=1, unit="groups",
                        how=f"{len(places(setting, issued))} lines issue them; the wait leaves the newest",
                    )
                ],
                price=asked.finding.estimate,
            )
        ]  # fmt: skip
    return []
