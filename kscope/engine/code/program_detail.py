"""Functions of a binary as the HTML report draws them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kscope.engine.code.loop_words import bounds
from kscope.engine.code.programs import Lines
from kscope.features.sass.listing import Listing
from kscope.features.views.source import listing_detail
from kscope.model.contract.analysis import Analysis, FunctionAnalysis, ProgramAnalysis, SkippedInput
from kscope.model.contract.detail import CodeDetail, FunctionDetail, ProgramDetail
from kscope.model.contract.programs import LoopView
from kscope.model.errors import KscopeError
from kscope.model.faults import AGAIN, in_words, show_traceback
from kscope.model.program import Cubin, Program
from kscope.model.quoted import quoted
from kscope.model.units import counted


def program_details(
    cubins: Sequence[Cubin], analysis: Analysis, lines: Lines | None = None, skipped: list[SkippedInput] | None = None
) -> list[ProgramDetail]:
    """analysis: `binary_analysis` of the same images, for its findings and figures. lines: text of source files.
    skipped: takes the functions that cannot be drawn; raises KscopeError where none can."""
    skipped = [] if skipped is None else skipped
    out = []
    for cubin, program in zip(cubins, analysis.programs, strict=True):
        functions = []
        for code, about in _analysed(cubin, program):
            try:
                detail = listing_detail(Listing(code))
            except Exception as error:
                show_traceback(error)
                what = f"function {quoted(code.name)}"
                skipped.append(SkippedInput(input=program.input, what=what, message=in_words(error)))
                continue
            functions.append(
                FunctionDetail(
                    name=about.name, demangled=about.demangled, facts=_facts(about), findings=about.findings,
                    code=_with_sources(detail, lines), summary=_summary(about),
                )
            )  # fmt: skip
        out.append(ProgramDetail(input=program.input, arch=program.arch, functions=functions))
    if skipped and not any(program.functions for program in out):
        first = f"{skipped[0].what}: {skipped[0].message}"
        raise KscopeError("unanalysable", f"{skipped[0].input}: none of its functions can be drawn ({first})", AGAIN)
    return out


def _analysed(cubin: Cubin, program: ProgramAnalysis) -> Iterator[tuple[Program, FunctionAnalysis]]:
    """Functions with their analyses; without those that could not be analysed, so have none."""
    abouts = iter(program.functions)
    about = next(abouts, None)
    for code in cubin.functions:
        if about is not None and about.name == code.name and about.instructions == len(code):
            yield code, about
            about = next(abouts, None)


def _with_sources(code: CodeDetail, lines: Lines | None) -> CodeDetail:
    if lines is None:
        return code
    texts = {name: "\n".join(text) for name in code.files if (text := lines(name))}
    return msgspec.structs.replace(code, sources=texts)


SHOWN = 8  # loops, pipes and steps of a summary


def _summary(about: FunctionAnalysis) -> list[tuple[str, list[str]]]:
    """What the head of `kscope sass --annotate` says of the function."""
    out = []
    if about.loops:
        out.append(("Loops", [_loop(loop) for loop in about.loops[:SHOWN]]))
    if about.mix:
        rows = sorted(about.mix, key=lambda row: -row.instructions)[:SHOWN]
        texts = [f"{r.pipe}: {r.instructions:,}" + (f", {r.in_loops:,} in loops" if r.in_loops else "") for r in rows]
        out.append(("Instruction mix", texts))
    found = about.occupancy
    if found is not None:
        limits = f", limited by {' and '.join(found.limits)}" if found.limits else ""
        lines = [f"{found.warps} of {found.warps_max} warps an SM for blocks of {found.threads} threads "
                 f"({found.threads_from}){limits}"]  # fmt: skip
        steps = [(s.warps, counted(s.registers, "register")) for s in found.steps[:SHOWN]]
        lines += [f"{warps} warps with at most {registers} a thread" for warps, registers in steps]
        out.append(("Occupancy", lines))
    return out


def _loop(loop: LoopView) -> str:
    at = f"{loop.start:04x} to {loop.end:04x}, depth {loop.depth}, {counted(loop.instructions, 'instruction')}"
    kind = f", {loop.kind}" if loop.kind else ""
    return f"loop {loop.number}, {at}{kind}: {bounds(loop)}"


def _facts(about: FunctionAnalysis) -> list[tuple[str, str]]:
    """The figures of the function that are known, as words."""
    figures = [
        ("instructions", about.instructions, ""), ("registers", about.registers, ""), ("stack", about.stack, " B"),
        ("shared", about.shared, " B"), ("spill stores", about.spill_stores, ""),
        ("spill loads", about.spill_loads, ""),
    ]  # fmt: skip
    out = [(name, f"{value:,}{unit}") for name, value, unit in figures if value]
    if about.occupancy is not None:
        out.append(("warps an SM", f"{about.occupancy.warps} of {about.occupancy.warps_max}"))
    return out
