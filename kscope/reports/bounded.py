"""Machine code, a launch and a time, for a terminal: what is proved, and what only counters would tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.units import counted, figure, percent
from kscope.reports import next_step, words
from kscope.reports.terminal import Page

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis, Bounded, FunctionAnalysis
    from kscope.reports import Options

LOOPS, PIPES, FINDINGS = 8, 5, 5
"""Rows shown without -v."""


def render(analysis: Analysis, options: Options) -> str:
    """The functions that have bounds, ending in a newline."""
    page = Page(max(options.width, 50), color=options.color, unicode=options.unicode)
    for program in analysis.programs:
        for function in program.functions:
            if function.bounded:
                _function(page, program.arch, function, function.bounded, verbose=options.verbose)
    return page.text()


def _function(page: Page, arch: str, function: FunctionAnalysis, found: Bounded, *, verbose: bool) -> None:
    name = words.shorten(one_line(function.demangled or function.name), page.width - 14)
    page.ends([(name, "bold")], (words.time(found.time_us), "bold"))
    shape = f"{'x'.join(map(str, found.grid))} blocks of {'x'.join(map(str, found.block))}"
    page.paragraph(f"{one_line(arch)} on {one_line(found.chip)} ({one_line(found.chip_from)}), {shape}, "
                   f"{function.registers or '?'} registers; nobody counted anything: all figures are bounds at the "
                   "highest clock", lead=("  ", ""), indent=2, style="dim")  # fmt: skip
    page.blank()
    page.paragraph(next_step.line(found.next), lead=("  next  ", "good"), indent=8)
    if found.problem:
        p = found.problem
        page.paragraph(f"{one_line(p.text)}: {one_line(p.verdict)}; floor {words.time(p.floor_us)}, good kernels "
                       f"{words.time(p.attained_us)} ({one_line(p.limiter)})",
                       lead=("  problem  ", "dim"), indent=11)  # fmt: skip
        for text in p.explanations:
            page.paragraph(one_line(text), lead=("           would take as long: ", "dim"), indent=13)
    page.blank()
    _bounds(page, found, verbose=verbose)
    _findings(page, function, verbose=verbose)
    page.blank()
    page.line(("  only counters would tell (kscope doctor says whether they are permitted)", "dim"))
    for item in found.unknown:
        page.paragraph(f"{one_line(item.what)}: {one_line(item.collect)}", lead=("  ?  ", "dim"), indent=5)


def _bounds(page: Page, found: Bounded, *, verbose: bool) -> None:
    if (r := found.resident) is not None:
        limits = ", ".join(one_line(limit) for limit in r.limits)
        page.paragraph(f"{r.warps} of {r.warps_max} an SM at most, {counted(r.blocks, 'block')} (limit: {limits}); "
                       f"{figure(r.waves)} waves", lead=("  warps    ", "dim"), indent=11)  # fmt: skip
    page.paragraph(f"{words.number(found.device_bytes / 1e6)} MB can have moved in this time at most",
                   lead=("  memory   ", "dim"), indent=11)  # fmt: skip
    for pipe in found.pipes if verbose else found.pipes[:PIPES]:
        page.line(("  at least ", "dim"), f"{percent(pipe.share):>6}  of the time for {one_line(pipe.pipe)}, if every "
                  "warp passes the code once")  # fmt: skip
    for loop in found.loops if verbose else found.loops[:LOOPS]:
        page.paragraph(f"{figure(loop.rounds)} rounds a warp of loop {loop.loop} ({loop.start:04x}-{loop.end:04x}), "
                       f"{figure(loop.cycles)} cycles of {one_line(loop.pipe)} each",
                       lead=("  at most  ", "dim"), indent=11)  # fmt: skip
    for text in [*found.refused, *found.says]:
        page.paragraph(one_line(text), lead=("  note     ", "dim"), indent=11)


def _findings(page: Page, function: FunctionAnalysis, *, verbose: bool) -> None:
    findings = [f for f in function.findings if verbose or f.severity != "info"]
    if not findings:
        return
    page.blank()
    page.line(("  what the code proves (no gain is known)", "dim"))
    for finding in findings if verbose else findings[:FINDINGS]:
        at = f" at {finding.locations[0].pc:04x}" if finding.locations else ""
        page.paragraph(f"{one_line(finding.title)}{at}: {one_line(finding.fix)}",
                       lead=(f"  {finding.code}  ", "code"), indent=10)  # fmt: skip
