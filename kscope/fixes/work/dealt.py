"""A run of rows for each block becomes every n-th row: work that grows along the rows is then the same for all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.fixes.atomics.reading import MODIFIED, into_the_same
from kscope.fixes.given.conditions import shown
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import (
    Loop,
    Span,
    asked_here,
    closing,
    hidden,
    kernel_text,
    loops,
    outside,
    plain,
    spans_edited,
    statement_end,
)
from kscope.model.contract.fixes import Condition, Fix, Proof

_FLOW = re.compile(r"\b(?:break|do)\b")
_WRITTEN = re.compile(rf"(?<![\w.\])])(?<!->)(\w+)(?:\s*\.\s*\w+)*{MODIFIED}|(?:\+\+|--)\s*(\w+)")
TRIED = ((1, 1), (2, 3), (7, 5), (132, 32), (31, 64))
"""(blocks, rows a block) for which both orders are written out and compared."""


def fixes(asked: Asked) -> list[Fix]:
    setting, text = asked.setting, kernel_text(asked.setting)
    launch = setting.launch
    if text is None or launch is None or hidden(text.code, setting.lines(text.file)):
        return []
    per, spans = _dealt(text.code, setting.lines(text.file)[max(0, text.first - 2) : text.first])
    edits = spans_edited(setting, text, spans)
    if not edits or not asked_here(setting.code, text, "CTAID"):
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


def _dealt(code: str, head: Sequence[str]) -> tuple[str, list[Span]]:
    """Rows a block, as written, and the places of a row's number, where one loop goes over a block's rows and nothing
    else asks for the block."""
    spans: list[Span] = []
    per, ways = "", _ways(code, head)
    for loop in loops(code):
        rows = re.escape(loop.end)
        if loop.start != "0" or loop.step not in (f"{loop.name}++", f"++{loop.name}"):
            continue
        if not re.fullmatch(r"\w+/gridDim\.x", plain(loop.end, code)):
            continue
        run = rf"blockIdx\.x\s*\*\s*{rows}\s*\+\s*{loop.name}\b"
        found = list(re.finditer(run, code[slice(*loop.body)]))
        if found and (per or not _rows_apart(code, loop, [m.span() for m in found], ways)):
            return "", []
        new = f"blockIdx.x + {loop.name} * gridDim.x"
        spans += [(loop.body[0] + m.start(), loop.body[0] + m.end(), new) for m in found]
        per = loop.end if found else per
    rest = outside(code, [(a, b) for a, b, _ in spans] + ways)
    return ("", []) if re.search(r"\bblockIdx\b(?!\s*\.\s*[yz])", rest) else (per, spans)


def _ways(code: str, head: Sequence[str]) -> list[tuple[int, int]]:
    """The other way of a choice that a template makes: `DEALT ? blockIdx.x + .. : `."""
    named = set(re.findall(r"[<,]\s*bool\s+(\w+)", "\n".join(head)))
    return [(m.end(1), m.end()) for m in re.finditer(r"\b(\w+)\s*\?[^?:;]*:", code) if m[1] in named]


def _rows_apart(code: str, loop: Loop, found: Sequence[tuple[int, int]], ways: Sequence[tuple[int, int]]) -> bool:
    """Whether a row's work asks for its number alone, goes through to its end, and leaves nothing for the next row."""
    start, end = loop.body
    others = [(a - start, b - start) for a, b in ways if start <= a < end]
    inside = code[start:end]
    if re.search(rf"\b{loop.name}\b", outside(inside, [*found, *others])) or _FLOW.search(_alone(inside)):
        return False
    if re.search(r"\b(?:return|goto|asm|static|auto\s*&)\b", inside):
        return False
    before = code[: loop.span[0]]
    kept = {name for pair in _WRITTEN.findall(inside) for name in pair if name}
    if any(re.search(rf"(?<![\w.]){name}\b", before) for name in kept):
        return False
    stored = set(re.findall(rf"(?<![\w.])(\w+)\s*(?:\[[^;]*?\]\s*)+(?:\.\s*\w+\s*)*{MODIFIED}", inside))
    stored |= set(re.findall(rf"\*\s*\(?\s*(\w+)[^;=]*?\)?{MODIFIED}", inside))
    return all(_own(code, inside, name) for name in stored)


def _own(code: str, inside: str, name: str) -> bool:
    """Whether an array that rows store to is theirs alone: of the block, and filled anew, or not read by any."""
    if re.search(rf"(?:\b__shared__[^;]*|\b(?:float|double|int|unsigned)\s+)\b{name}\s*\[", code):
        first = re.search(rf"(?<![\w.]){name}\b(?P<put>\s*(?:\[[^\[\]]*\]\s*)+=(?!=))?", inside)
        return first is not None and first["put"] is not None
    names = {name} | into_the_same(code, name)
    uses = [m.end() for one in names for m in re.finditer(rf"(?<![\w.]){one}\s*\[", inside)]
    stores = [m.end() for m in re.finditer(rf"(?<![\w.]){name}\s*\[", inside)
              if (close := closing(inside, m.end())) and re.match(r"\s*=(?!=)", inside[close + 1 :])]  # fmt: skip
    return sorted(uses) == stores


def _alone(inside: str) -> str:
    """A body without what loops and switches in it do."""
    inner = [(m.start(), statement_end(inside, m.start()) or m.start())
             for m in re.finditer(r"\b(?:for|while|switch)\s*\(", inside)]  # fmt: skip
    return outside(inside, inner)
