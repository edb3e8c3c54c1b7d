"""Local arrays that loop counters index: loops as long as the array, so that each index is a number."""

from __future__ import annotations

import re

from kscope.features.sass.accesses import accesses
from kscope.features.sass.columns import total
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import Span, kernel_text, loops, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

MOST = 32  # words of an array that registers can hold besides what the rest needs (judged)
_ARRAY = re.compile(r"\b(?:float|int|unsigned|double)\s+([^;()]*\[[^;()]*);", re.ASCII)


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    if text is None:
        return []
    body = text.code[text.code.find("{") :]
    known = constants(setting.lines(text.file))
    arrays = {
        name: count for part in _ARRAY.findall(body) for name, size in re.findall(r"(\w+)\s*\[([^]]+)\]", part)
        if (count := evaluated(size, known)) is not None and 1 < count <= MOST
    }  # fmt: skip
    every = loops(text.code)
    chosen: dict[int, tuple[str, int]] = {}
    for n, loop in enumerate(every):
        if loop.start != "0" or loop.step not in (f"{loop.name}++", f"++{loop.name}") or loop.end.isdigit():
            continue
        inside = text.code[slice(*loop.body)]
        lengths = {arrays[a] for a in arrays if re.search(rf"\b{a}\s*\[\s*{loop.name}\s*\]", inside)}
        if len(lengths) == 1:
            chosen[n] = (loop.name, lengths.pop())
    counted = {name for name, _ in chosen.values()}
    indexed = [m for a in arrays for m in re.findall(rf"(?<![\w.>]){a}\s*\[([^]]+)\]", body[body.find(";") :])]
    declared = {size for part in _ARRAY.findall(body) for _, size in re.findall(r"(\w+)\s*\[([^]]+)\]", part)}
    if not chosen or any(i.strip() not in counted and not i.strip().isdigit() and i not in declared for i in indexed):
        return []
    spans: list[Span] = []
    for n, (name, count) in chosen.items():
        loop = every[n]
        at = loop.span[1]
        spans.append((*loop.span, f"for ({loop.kind} {name} = 0; {name} < {count}; {name}++) if ({name} < {loop.end})"))
        if "#pragma unroll" not in text.code[: loop.span[0]].rstrip().split("\n")[-1] and not at:
            return []
    edits = spans_edited(setting, text, spans)
    kinds = accesses(code.program, code.classes)
    local = code.ran([i for i, a in enumerate(kinds) if a is not None and a.stack == "local array"])
    if not edits or not local:
        return []
    counts = sorted({c for _, c in chosen.values()})
    return [
        Fix(
            kind="unroll",
            title=f"the {len(chosen)} loops over local arrays as long as the arrays ({', '.join(map(str, counts))})",
            language="cuda",
            edits=edits,
            parameters={"loops": len(chosen)},
            conditions=[
                Condition(holds="every index of the arrays is a counter of these loops, or a number", state="proved",
                          why=f"{len(indexed)} uses in the kernel's text"),
                Condition(holds="the bounds are at most the arrays' lengths", state="assumed",
                          why="the code would write beyond the array else"),
                Condition(holds="the loops stand behind #pragma unroll", state="proved"
                          if all(_unrolled(text.code, every[n].span[0]) for n in chosen) else "check"),
            ],
            proof=[
                Proof(what="local loads and stores of warps", before=total(code.executed, local), after=0, unit="inst",
                      how=f"{len(local)} accesses at computed addresses become registers"),
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _unrolled(code: str, at: int) -> bool:
    return "#pragma unroll" in code[:at].rstrip().rpartition("\n")[2]
