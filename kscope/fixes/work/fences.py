"""Fences and waits in every round of a loop: one behind it, where the rounds do not need each other's."""

from __future__ import annotations

import re

from kscope.features.sass.columns import total
from kscope.features.sass.listing import Listing
from kscope.fixes.given.conditions import shown
from kscope.fixes.given.rewrite import PURE
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import HEAD, Span, kernel_text, loops, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

_FENCE = re.compile(r"(?:if\s*\(\s*\w+\s*\)\s*)?(__threadfence(?:_system|_block)?\s*\(\s*\)\s*;)")
_STORED = re.compile(r"(\*\s*\w+|\w+\s*(?:\[[^\[\]]*(?:\[[^\[\]]*\])?[^\[\]]*\]\s*)+(?:\.\s*\w+\s*)*|\w+\s*->\s*\w+\s*)"
                     r"\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)")
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
        if len(here) != 1 or _SIGNAL.search(inside) or not _of_one_array(inside):
            continue
        (one,) = here
        behind = re.compile(r"\s*else\b")
        if HEAD.search(text.code[: loop.span[0]]) is None or behind.match(inside, one.end()):
            continue
        at = loop.body[0]
        spans: list[Span] = [
            (at + one.start(), at + one.end(), ""), (loop.body[1], loop.body[1], f" {one[1]}")
        ]
        edits = spans_edited(setting, text, spans)
        warps = setting.launch.warps * setting.launch.blocks
        before, silent = total(code.executed, barriers), _silent(code, barriers)
        if not edits or before <= warps:
            continue
        return [
            Fix(
                kind="fence",
                title="one fence behind the loop",
                language="cuda",
                edits=edits,
                conditions=[
                    shown(
                        silent > 0, "the loop tells nobody that a round's data are there", "code", silent,
                        "its instructions have no atomic, no strong store and no barrier",
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


def _of_one_array(inside: str) -> bool:
    """Whether a round stores to one array alone, by its own words: what it stores to another may tell that the first is
    there."""
    to = {re.sub(r"\W.*", "", one.lstrip("* ")) for one in _STORED.findall(inside)}
    calls = set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", inside)) - {"if", "for", "size_t", "int", "unsigned", "float"}
    return len(to) == 1 and all(x.startswith("__threadfence") or x in PURE for x in calls)


def _silent(code: Listing, barriers: list[int]) -> int:
    """Instructions of the loops around these fences, if none of them can be a signal; 0 where one can."""
    around = {code.cfg.loop_of[i] for i in barriers} - {None}
    body = {i for loop in around if loop is not None for i in code.cfg.loop_body(loop)}
    signals = code.where(
        lambda ins, op: op.access in ("atomic", "reduction") or bool(op.kind & {"barrier", "mbarrier"})
        or (op.access == "store" and "STRONG" in ins.mods) or ins.opcode in ("CALL", "REDUX", "SHFL")
    )  # fmt: skip
    return 0 if body & set(signals) else len(body)
