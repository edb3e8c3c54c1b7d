"""Local arrays that loop counters index: loops as long as the array, so that each index is a number."""

from __future__ import annotations

import re

from kscope.features.sass.accesses import accesses
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants, evaluated, split_declarators
from kscope.fixes.given.text import Loop, Span, kernel_text, loops, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

_ASKED = re.compile(r"\b(?:if|else|while|switch|continue|break|return|goto)\b|\?|&&|\|\|")
MOST = 32  # words of an array that registers can hold besides what the rest needs (judged)
_ARRAY = re.compile(r"\b(?:float|int|unsigned|double)\s+([^;()]*\[[^;()]*);", re.ASCII)


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    if text is None:
        return []
    body = text.code[text.code.find("{") :]
    every = loops(text.code)
    picked = chosen(text.code, every, lengths(body, constants(setting.lines(text.file))))
    indexed = indices(body, {name for name, _ in picked.values()})
    if not picked or indexed is None:
        return []
    spans: list[Span] = []
    for n, (name, count) in picked.items():
        loop = every[n]
        spans.append((*loop.span, f"for ({loop.kind} {name} = 0; {name} < {count}; {name}++) if ({name} < {loop.end})"))
    edits = spans_edited(setting, text, spans)
    kinds = accesses(code.program, code.classes)
    local = code.ran([i for i, a in enumerate(kinds) if a is not None and a.stack == "local array"])
    if not edits or not local:
        return []
    counts = sorted({c for _, c in picked.values()})
    return [
        Fix(
            kind="unroll",
            title=f"the {len(picked)} loops over local arrays as long as the arrays ({', '.join(map(str, counts))})",
            language="cuda",
            edits=edits,
            parameters={"loops": len(picked)},
            conditions=[
                reads("every index of the arrays is a counter of these loops, or a number", f"{indexed} uses"),
                Condition(holds="the bounds are at most the arrays' lengths", state="assumed",
                          why="the code would write beyond the array else"),
                Condition(holds="the loops stand behind #pragma unroll", state="assumed"
                          if all(_asks(text.code, every[n].span[0]) for n in picked) else "check"),
            ],
            proof=[
                Proof(what="local loads and stores of warps", before=total(code.executed, local), after=0, unit="inst",
                      how=f"{len(local)} accesses at computed addresses become registers"),
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _declared(body: str) -> list[tuple[str, str]]:
    """Local arrays with their (first) size's text; what they are made of is none."""
    parts = [one.partition("=")[0] for part in _ARRAY.findall(body) for one in split_declarators(part)]
    return [(m[1], m[2]) for one in parts if (m := re.match(r"\s*(\w+)\s*\[([^]]+)\]", one)) is not None]


def lengths(body: str, known: dict[str, int]) -> dict[str, int]:
    """Words of the local arrays that registers could hold, of names that stand for one array."""
    found = _declared(body)
    names = [name for name, _ in found]
    counts = {name: evaluated(size, known) for name, size in found if names.count(name) == 1}
    return {name: count for name, count in counts.items() if count is not None and 1 < count <= MOST}


def chosen(code: str, every: list[Loop], arrays: dict[str, int]) -> dict[int, tuple[str, int]]:
    """Loops from 0 to what the launch says that index such an array by their counter: its name, the array's length."""
    out: dict[int, tuple[str, int]] = {}
    for n, loop in enumerate(every):
        if loop.start != "0" or loop.step not in (f"{loop.name}++", f"++{loop.name}") or loop.end.isdigit():
            continue
        if re.match(r"\s*else\b", code[loop.body[1] :]):  # it would be the else of what is asked in the loop
            continue
        if re.search(rf"\b{loop.name}\b|&&|\|\||[?,=]|\+\+|--", loop.end):
            continue  # a round that ends the loop is not one that is left out
        inside = code[slice(*loop.body)]
        if re.search(rf"\b{loop.name}\s*(?:[-+*/]?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{loop.name}\b", inside):
            continue
        found = {size for name, size in arrays.items() if _always(inside, name, loop.name)}
        if len(found) == 1:
            out[n] = (loop.name, found.pop())
    return out


def _always(inside: str, name: str, counter: str) -> bool:
    """Whether every round uses the array's element of its number: only then no round is beyond the array."""
    first = re.search(rf"(?<![\w.])(?<!->){name}\s*\[\s*{counter}\s*\]", inside)
    return first is not None and _ASKED.search(inside, 0, first.start()) is None


def indices(body: str, counted: set[str]) -> int | None:
    """How many uses local arrays have, all indexed by these counters or by numbers; None where one is not."""
    declared = _declared(body)
    names, sizes = {name for name, _ in declared}, [size.strip() for _, size in declared]
    found = [m.strip() for name in names for m in re.findall(rf"(?<![\w.])(?<!->){name}\s*\[([^]]+)\]", body)]
    for size in sizes:
        found.remove(size)
    return len(found) if all(i in counted or i.isdigit() for i in found) else None


def pragma(code: str, at: int) -> str:
    """The line to put in front of a loop so that it is unrolled; nothing where it is there."""
    if _asks(code, at):
        return ""
    line = code[code.rfind("\n", 0, at) + 1 : at]
    pad = " " * (len(line) - len(line.lstrip()))
    return f"#pragma unroll\n{pad}" if not line.strip() else f"\n{pad}#pragma unroll\n{pad}"


def _asks(code: str, at: int) -> bool:
    return "#pragma unroll" in code[:at].rstrip().rpartition("\n")[2]
