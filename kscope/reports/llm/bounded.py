"""Machine code, a launch and a time, for a language model: what to do, what is proved, the code, and what only counters
would tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.units import figure, percent
from kscope.reports import next_step, words
from kscope.reports.escape import fence
from kscope.reports.llm.blocks import Block, said, span
from kscope.reports.llm.page import fitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.analysis import Analysis, Bounded, FunctionAnalysis
    from kscope.model.contract.programs import InstructionView
    from kscope.reports import Options

WHOLE = 4000  # instructions of a function that is shown
LEAST = 0.01  # share below which a bound is noise


def render(analysis: Analysis, options: Options) -> str:
    """The functions that have bounds, in at most `options.budget` tokens, ending in a newline."""
    blocks: list[Block] = []
    for program in analysis.programs:
        for function in program.functions:
            if function.bounded:
                blocks += _function(program.arch, function, function.bounded)
    return fitted(blocks, options.budget)


def _function(arch: str, function: FunctionAnalysis, found: Bounded) -> list[Block]:
    return [*_verdict(arch, function, found), *_findings(function), *_bounds(found), *_code(function), *_unknown(found)]


def _verdict(arch: str, function: FunctionAnalysis, found: Bounded) -> list[Block]:
    name = span(function.demangled or function.name)
    shape = f"grid {'x'.join(map(str, found.grid))}, block {'x'.join(map(str, found.block))}"
    text = (
        f"Kernel {name}, {words.time(found.time_us)}, {span(arch)} on {span(found.chip)} ({said(found.chip_from)}), "
        f"{shape}, {function.registers or 'unknown'} registers. Nobody counted anything: all figures are bounds at the "
        f"highest clock.\nNext: {said(next_step.line(found.next))}"
    )
    blocks = [Block(0, "verdicts", "## Verdict, without counters", text)]
    if (p := found.problem) is not None:
        line = (f"- {span(p.text)}: {said(p.verdict)}; floor {words.time(p.floor_us)}, good kernels "
                f"{words.time(p.attained_us)} ({said(p.limiter)})")  # fmt: skip
        also = "".join(f"\n- would take as long: {said(one)}" for one in p.explanations)
        blocks.append(Block(1, "floors", "## Beside the problem", line + also))
    return blocks


def _findings(function: FunctionAnalysis) -> list[Block]:
    heading = "## What the code proves (no gain is known)"
    out = []
    for number, one in enumerate(f for f in function.findings if f.severity != "info"):
        places = ", ".join(f"{place.pc:04x}" for place in one.locations[:4])
        at = f"\n   - at pc {places}" if places else ""
        why = f"\n   - because {said(one.why)}" if one.why else ""
        line = f"{number + 1}. {one.code} {said(one.title)}\n   - fix {said(one.fix)}{at}{why}"
        out.append(Block(2 + number, "findings", heading, line))
    return out


def _bounds(found: Bounded) -> list[Block]:
    lines = []
    if (r := found.resident) is not None:
        limits = ", ".join(said(one) for one in r.limits)
        lines.append(f"{r.warps} of {r.warps_max} warps an SM at most (limit: {limits}); {figure(r.waves)} waves")
    lines.append(f"{words.number(found.device_bytes / 1e6)} MB can have moved through device memory at most")
    lines += [f"at least {percent(p.share)} of the time for {said(p.pipe)}, if every warp passes the code once"
              for p in found.pipes if p.share >= LEAST]  # fmt: skip
    lines += [f"at most {figure(one.rounds)} rounds a warp of loop {one.loop} ({one.start:04x} to {one.end:04x}), "
              f"{figure(one.cycles)} cycles of {said(one.pipe)} each" for one in found.loops]  # fmt: skip
    lines += [said(one) for one in (*found.refused, *found.says)]
    return [Block(4 + i, "bounds", "## Bounds", f"- {line}") for i, line in enumerate(lines)]


def _code(function: FunctionAnalysis) -> list[Block]:
    """The loops first, then everything."""
    rows = function.listing[:WHOLE]
    if not rows:
        return []
    inner = [row for row in rows if row.depth]
    texts = [fence(_lines(some), "sass") for some in (inner, rows) if some]
    return [Block(9, "code", "## Code, annotated", texts[0], tuple(texts[1:]))]


def _lines(rows: Sequence[InstructionView]) -> list[str]:
    out = []
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and row.pc - before.pc > 16:
            out.append("...")
        notes = "; ".join(one_line(text) for text in (" ".join(row.findings), *row.notes) if text)
        out.append(f"{row.pc:04x} {one_line(row.sass)}" + (f"  ; {notes}" if notes else ""))
    return out


def _unknown(found: Bounded) -> list[Block]:
    heading = "## What only counters would tell"
    return [Block(7 + i, "unknowns", heading, f"- {said(one.what)}: {said(one.collect)}")
            for i, one in enumerate(found.unknown)]  # fmt: skip
