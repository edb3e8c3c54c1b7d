"""The code of a kernel for a language model: source lines with their samples, the hottest instructions with their
causes, whole loops annotated, loops with what a round is made of."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.units import figure
from kscope.reports import words
from kscope.reports.escape import fence
from kscope.reports.llm.blocks import Block, span
from kscope.reports.phrases import hot as hottest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.analysis import KernelAnalysis
    from kscope.model.contract.detail import CodeDetail, KernelDetail, LoopFacts

LEAST = 0.01
"""Share of samples below which a line or instruction is noise."""
AROUND = 2  # source lines shown before and after a hot one
LINE = 240  # characters of a line: a kernel's head with its parameters
LONGEST = 300  # source lines of a kernel that is shown whole where the budget is large
MOSTLY = 0.5  # of a loop's instructions: what a finding says of more of them is said once
TWICE = 1.5  # times what a perfect pattern needs, from which an access's traffic is told
_AWAITED = re.compile(r"waits for [0-9a-f]{4}\b")


def hot(kernel: KernelAnalysis, base: int, heading: str) -> list[Block]:
    """The hottest instructions in one fence, as many as the budget holds."""
    told = [one for one in kernel.hot if one.share >= LEAST]
    texts = []
    for count in (2, 5, len(told)):
        lines: list[str] = []
        previous = None
        for one in told[:count]:
            at = f"{words.basename(one_line(one.file or ''))}:{one.line}" if one.line else ""
            mark = ", ".join(hottest.covering(kernel, one.pc))
            sass = words.middle(one_line(one.sass), 90)
            lines.append(f"{words.percent(one.share):>5} {one.pc:04x} {sass}{f'  [{mark}]' if mark else ''}")
            lines.append(f"      {words.middle(hottest.why(one), 150)}")
            if at and at != previous and one.source:
                lines.append(f"      {words.middle(at, 60)}  {words.middle(one_line(one.source), LINE)}")
            previous = at
        texts.append(fence(lines, "sass"))
    if not told:
        return []
    return [Block(base + 5, "hot instructions", heading, texts[0], tuple(dict.fromkeys(texts[1:])))]


def source(kernel: KernelAnalysis, detail: KernelDetail | None, base: int, heading: str) -> list[Block]:
    """Source lines that cost samples, with what stands around them, samples and findings before each."""
    code = detail.code if detail is not None else None
    if code is None:
        return []
    if not code.sources:
        text = "- The source is not in the report: ncu --import-source yes takes it along, --source-root DIR finds it."
        return [Block(base + 14, "missing inputs", heading, text)]
    costs = _costs(code)
    whole = sum(code.samples) or 1
    worth = [(at, n) for at, n in costs.items() if n >= LEAST * whole and at[0] in code.sources]
    ranked = [at for at, _ in sorted(worth, key=lambda kv: -kv[1])]
    texts = []
    for count in (3, 10, 1000):
        if lines := _excerpt(kernel, code, costs, ranked[:count], whole):
            texts.append(fence(lines))
    if lines := _excerpt(kernel, code, costs, [*ranked, *_between(code, ranked)], whole):
        texts.append(fence(lines))
    return [Block(base + 8, "source lines", heading, texts[0], tuple(dict.fromkeys(texts[1:])))] if texts else []


def _between(code: CodeDetail, hot: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """All lines from the first to the last that became code, of the files with hot ones: a stretch that is longer than
    a kernel is not meant."""
    out = []
    for name in dict.fromkeys(file for file, _ in hot):
        number = code.files.index(name)
        lines = [line for file, line in zip(code.file, code.line, strict=True) if file == number and line]
        if max(lines) - min(lines) < LONGEST:
            out += [(name, line) for line in range(min(lines), max(lines) + 1)]
    return out


def _near(text: Sequence[str], line: int) -> list[int]:
    """A line (from 1) with those around it, but none of another function: in C++ those end with a brace that stands at
    the beginning of its line."""
    before, after = range(line - 1, line - AROUND - 1, -1), range(line + 1, line + AROUND + 1)
    out = [line]
    for n in before:
        if not 0 < n <= len(text) or text[n - 1].startswith("}"):
            break
        out.append(n)
    for n in after:
        if n > len(text) or text[n - 2].startswith("}"):
            break
        out.append(n)
    return out


def _costs(code: CodeDetail) -> dict[tuple[str, int], int]:
    out: dict[tuple[str, int], int] = {}
    for i, n in enumerate(code.samples):
        if code.file[i] >= 0 and code.line[i]:
            at = (code.files[code.file[i]], code.line[i])
            out[at] = out.get(at, 0) + n
    return out


def _excerpt(
    kernel: KernelAnalysis, code: CodeDetail, costs: dict[tuple[str, int], int], chosen: Sequence[tuple[str, int]],
    whole: int,
) -> list[str]:  # fmt: skip
    marks: dict[tuple[str, int], set[str]] = {}
    index = {pc: i for i, pc in enumerate(code.pcs)}
    for finding in kernel.findings:
        for pc in finding.covered or [x.pc for x in finding.locations]:
            i = index.get(pc)
            if i is not None and code.file[i] >= 0:
                marks.setdefault((code.files[code.file[i]], code.line[i]), set()).add(finding.code)
    lines: list[str] = []
    for name in dict.fromkeys(file for file, _ in chosen):
        text = code.sources[name].splitlines()
        lines_of = {line for file, line in chosen if file == name and 0 < line <= len(text)}
        shown = sorted({n for line in lines_of for n in _near(text, line)})
        lines.append(f"// {words.basename(one_line(name))}")
        previous = 0
        for n in shown:
            if previous and n > previous + 1:
                lines.append("      ...")
            share = costs.get((name, n), 0) / whole
            told = words.percent(share) if share >= LEAST else ""
            codes = " ".join(sorted(marks.get((name, n), ())))
            lines.append(f"{told:>5} {n:>4} {text[n - 1].rstrip()[:LINE]}{f'  // {codes}' if codes else ''}")
            previous = n
    return lines


def loops(detail: KernelDetail | None, base: int, heading: str) -> list[Block]:
    """A line a loop: rounds, what a round is made of, what of that is the same in every round."""
    found = detail.loops if detail is not None else []
    return [Block(base + 7 + i, "loops", heading, f"- {_loop(loop)}") for i, loop in enumerate(found)]


def _loop(loop: LoopFacts) -> str:
    place = f", {span(f'{words.basename(loop.file)}:{loop.line}')}" if loop.line else ""
    trips = f"{loop.trips:,.4g} rounds each time" if loop.trips is not None else "rounds each time not known"
    mix = ", ".join(f"{pipe} {n:g}" for pipe, n in sorted(loop.mix.items(), key=lambda kv: -kv[1]) if n >= 0.05)
    same = sum(loop.invariant.values())
    fixed = f"; {same:g} of them compute the same in every round" if same >= 0.5 else ""
    return (
        f"loop {loop.number} at {loop.start:04x} to {loop.end:04x}{place}, depth {loop.depth}, "
        f"{words.percent(loop.share)} of samples: {trips}; a round has {sum(loop.mix.values()):.4g} warp instructions "
        f"({mix}){fixed}"
    )


def listing(kernel: KernelAnalysis, detail: KernelDetail | None, base: int, heading: str) -> list[Block]:
    """The hottest loops instruction by instruction, annotated: for large budgets."""
    code = detail.code if detail is not None else None
    if code is None or detail is None:
        return []
    beside = _beside(code, {pc for loop in detail.loops for pc in loop.same})
    out = []
    for rank, loop in enumerate(detail.loops):
        if any(o.start <= loop.start and loop.end <= o.end for o in detail.loops[:rank]):
            continue  # within one that is shown
        inner = next((o for o in detail.loops[rank + 1 :] if loop.start <= o.start and o.end <= loop.end), None)
        texts = [_whole(kernel, code, one, beside) for one in (inner, loop) if one is not None]
        out.append(Block(base + 18 + rank, "whole loops", heading, texts[0], tuple(texts[1:])))
    return out


def _whole(kernel: KernelAnalysis, code: CodeDetail, loop: LoopFacts, beside: Sequence[str]) -> str:
    """The instructions of a loop, whatever lies between them; what a finding says of most of them is said once."""
    rows = _members(code, loop)
    codes = {i: hottest.covering(kernel, code.pcs[i]) for i in rows}
    every = Counter(one for i in rows for one in codes[i])
    often = [one for one, n in every.items() if n > MOSTLY * len(rows)]
    whole, lines = sum(code.samples) or 1, []
    for before, i in zip([rows[0] - 1, *rows], rows, strict=False):
        if i != before + 1:
            lines.append("      ...")
        told = (" ".join(one for one in codes[i] if one not in often), beside[i])
        lines.append(_instruction(code, i, "; ".join(part for part in told if part), whole))
    most = f" ({', '.join(often)} at most of it)" if often else ""
    return f"Loop {loop.number}, whole{most}:\n{fence(lines, 'sass')}"


def _members(code: CodeDetail, loop: LoopFacts) -> list[int]:
    """Indices of a loop's instructions and of those inside it; what lies between them may be of another."""
    index = {pc: i for i, pc in enumerate(code.pcs)}
    first, last = index[loop.start], index[loop.end]
    inside: set[int] = set()
    for number, one in enumerate(code.loops):
        chain = {number}
        while one.parent >= 0 and (one.first, one.last) != (first, last):
            chain.add(one.parent)
            one = code.loops[one.parent]
        if (one.first, one.last) == (first, last):
            inside |= chain
    return [i for i in range(first, last + 1) if code.loop[i] in inside]


def _instruction(code: CodeDetail, i: int, beside: str, whole: float) -> str:
    share = code.samples[i] / whole
    told = words.percent(share) if share >= LEAST else ""
    return f"{told:>5} {code.pcs[i]:04x} {one_line(code.sass[i])}" + (f"  ; {beside}" if beside else "")


def _beside(code: CodeDetail, steady: set[int]) -> list[str]:
    """What is to be said of each instruction: its cause where it has samples, notes, traffic beyond its need."""
    least = LEAST * (sum(code.samples) or 1)
    notes: dict[int, list[str]] = {}
    for i, text in code.notes:
        notes.setdefault(i, []).append(text)
    causes = {i: text for i, text, _ in code.causes if code.samples[i] >= least}
    excess = _excess(code)
    out = []
    for i, pc in enumerate(code.pcs):
        cause = causes.get(i, "")
        same = "the same in every round" if pc in steady else ""
        told = (excess.get(i, ""), cause, same, *_apart(notes.get(i, []), cause))
        out.append("; ".join(part for part in told if part))
    return out


def _excess(code: CodeDetail) -> dict[int, str]:
    """Of accesses that take more than they need: `24.5 sectors a request, 3.3 would do`."""
    out: dict[int, str] = {}
    for name in ("sectors", "wavefronts"):
        flat, best = code.traffic.get(name, []), code.traffic.get(f"{name}_ideal", [])
        ideal = dict(zip(best[::2], best[1::2], strict=True))
        for i, count in zip(flat[::2], flat[1::2], strict=True):
            least = ideal.get(i, 0)
            if least and code.executed[i] and count >= TWICE * least:
                each, would = count / code.executed[i], least / code.executed[i]
                out[i] = f"{figure(each)} {name} a request, {figure(would)} would do"
    return out


def _apart(notes: Sequence[str], cause: str) -> list[str]:
    """Notes of an instruction, but for whom it waits for where its cause has named them."""
    parts = [part for note in notes for part in note.split("; ")]
    return [part for part in parts if not (cause.startswith("waits for the ") and _AWAITED.match(part))]
