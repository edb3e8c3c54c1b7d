"""A run of rows for each block becomes every n-th row: work that grows along the rows is then the same for all."""

from __future__ import annotations

import re

from kscope.fixes.given.conditions import shown
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Span, kernel_text, loops, outside, plain, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

TRIED = ((1, 1), (2, 3), (7, 5), (132, 32), (31, 64))
"""(blocks, rows a block) for which both orders are written out and compared."""


def fixes(asked: Asked) -> list[Fix]:
    text = kernel_text(asked.setting)
    launch = asked.setting.launch
    if text is None or launch is None:
        return []
    spans: list[Span] = []
    per = ""
    for loop in loops(text.code):
        rows = re.escape(loop.end)
        if loop.start != "0" or loop.step not in (f"{loop.name}++", f"++{loop.name}"):
            continue
        each = plain(loop.end, text.code)
        if not re.fullmatch(r"\w+/gridDim\.x", each):
            continue
        run = rf"blockIdx\.x\s*\*\s*{rows}\s*\+\s*{loop.name}\b"
        found = list(re.finditer(run, text.code[slice(*loop.body)]))
        spans += [
            (loop.body[0] + m.start(), loop.body[0] + m.end(), f"blockIdx.x + {loop.name} * gridDim.x") for m in found
        ]
        per = loop.end if found else per
    edits = spans_edited(asked.setting, text, spans)
    if not edits or "blockIdx" in outside(text.code, [(a, b) for a, b, _ in spans] + _ways(text.code)):
        return []
    same = sum(
        {b * n + r for b in range(g) for r in range(n)} == {b + r * g for b in range(g) for r in range(n)}
        for g, n in TRIED
    )
    return [
        Fix(
            kind="lane_mapping",
            title="rows dealt out to the blocks in turn, instead of a run of rows each",
            language="cuda",
            edits=edits,
            conditions=[
                shown(
                    same == len(TRIED), "the same rows are done once each", "values", sum(g * n for g, n in TRIED),
                    f"{per} rows a block: b * n + r and b + r * blocks run over the same numbers",
                ),
                Condition(holds="the work of a row changes along the rows, not from one to the next", state="check"),
            ],
            proof=[
                Proof(
                    what="rows between two that a block does one after the other", before=1, after=launch.grid[0],
                    unit="rows", how="neighbouring rows, which cost alike, go to different blocks",
                ),
                Proof(what="grids whose rows are the same in both orders", before=len(TRIED), after=same, unit="grids",
                      how="written out for several numbers of blocks and rows"),
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _ways(code: str) -> list[tuple[int, int]]:
    """The other way of a choice that a template makes: `DEALT ? blockIdx.x + .. : `."""
    return [m.span() for m in re.finditer(r"\?[^?:;]*:", code)]
