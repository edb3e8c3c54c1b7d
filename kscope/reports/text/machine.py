"""Machine code as text: for each function what it takes and where its time can go, then the annotated listing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.model.errors import one_line
from kscope.model.units import figure
from kscope.reports import words
from kscope.reports.phrases.loops import bounds
from kscope.reports.terminal import Page, Segment, cells, pad
from kscope.reports.text.machine_rows import LEGEND, RUNS_LEGEND, WIDE, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.analysis import Analysis, Finding, FunctionAnalysis, KernelAnalysis, ProgramAnalysis
    from kscope.model.contract.programs import InstructionView, LoopView

LEAD = 15  # columns of the labels on the left
LOOPS_SHOWN = 12
PIPES_SHOWN = 5
KINDS = {
    "spin": "waits for an mbarrier or a flag",
    "lane by lane": "ELECT, the instruction, BRA.U.ANY: the compiler could not prove an operand uniform",
}


class MachineOptions(Struct, frozen=True):
    """`control`: scheduling fields in words. `source`: source lines between the instructions. `top`: how many of the
    hottest instructions are listed first. `annotate`: the summary and the notes of a profiled kernel; without them
    samples and stalls alone."""

    width: int = 100
    color: bool = False
    unicode: bool = True
    control: bool = False
    source: bool = True
    top: int = 10
    annotate: bool = True


def render(analysis: Analysis, options: MachineOptions) -> str:
    """The text of every function of `analysis.programs`, ending in a newline."""
    page = Page(options.width, color=options.color, unicode=options.unicode)
    kernels = {kernel.id: kernel for kernel in analysis.kernels}
    legend = False
    for program in analysis.programs:
        for function in program.functions:
            page.blank()
            _heading(page, program, function)
            if function.kernel in kernels:
                _verdict(page, kernels[function.kernel])
            _summary(page, function, options)
            if function.listing:
                page.blank()
                if not legend:
                    profiled = bool(function.samples) and options.width >= WIDE
                    page.paragraph(LEGEND + (RUNS_LEGEND if profiled else ""), lead=("  ", ""), indent=2, style="dim")
                    page.blank()
                    legend = True
                rows(page, function, control=options.control, source=options.source, notes=options.annotate)
    for skipped in analysis.skipped:
        page.blank()
        text = f"{one_line(skipped.what)}: {one_line(skipped.message)}"
        page.paragraph(text, lead=("  skipped  ", "major"), indent=4)
    return page.text()


def _heading(page: Page, program: ProgramAnalysis, function: FunctionAnalysis) -> None:
    name = one_line(function.demangled) or one_line(function.name) or "(unnamed)"
    right = words.time(function.duration_us) if function.kernel else one_line(program.arch)
    if not page.ends([(words.shorten(name, page.width - cells(right) - 2), "bold")], (right, "bold")):
        page.paragraph(name, style="bold", indent=2)
    facts = [one_line(program.arch)] if function.kernel else []
    if program.member:
        facts.append(one_line(program.member))
    if function.launch:
        facts.append(function.launch)
    facts.append(f"{function.registers} registers" if function.registers is not None else "registers not known")
    if function.stack:
        facts.append(f"{function.stack:,} B stack")
    if function.shared:
        facts.append(f"{function.shared:,} B shared")
    facts.append(_count(function.instructions, "instruction"))
    real = [loop for loop in function.loops if not loop.kind]
    facts.append(_count(len(real), "loop"))
    if not function.entry:
        facts.insert(0, "device function")
    page.paragraph(" · ".join(facts), lead=("  ", ""), indent=2, style="dim")
    counts = ((function.spill_stores, "spill store"), (function.spill_loads, "spill load"))
    spills = [_count(n, what) for n, what in counts if n]
    if spills:
        page.line("  ", (", ".join(spills), "critical"))
    for note in function.notes:
        page.paragraph(one_line(note), lead=("  ", ""), indent=2, style="dim")


def _verdict(page: Page, kernel: KernelAnalysis) -> None:
    word, sentence = words.badge(kernel.verdict)
    page.blank()
    page.paragraph(sentence, lead=(f"  {word} ", kernel.verdict.regime), indent=2)


def _summary(page: Page, function: FunctionAnalysis, options: MachineOptions) -> None:
    page.blank()
    if options.annotate:
        _occupancy(page, function)
        _mix(page, function)
        _accesses(page, function)
        _loops(page, function)
        _findings(page, function.findings)
    if function.samples:
        _hottest(page, function, options.top)


def _row(page: Page, label: str, text: str, style: str = "") -> None:
    page.paragraph(text, lead=(f"  {label:{LEAD - 2}}", "dim"), indent=LEAD, style=style)


def _occupancy(page: Page, function: FunctionAnalysis) -> None:
    found = function.occupancy
    if found is None:
        return
    threads = f"{found.threads} threads a block ({found.threads_from})"
    limits = " and ".join(found.limits)
    _row(page, "occupancy", f"{found.warps} of {found.warps_max} warps an SM with {threads}, set by {limits}")
    registers = function.registers or 0
    up = [s for s in found.steps if s.warps > found.warps]
    down = [s for s in found.steps if s.warps < found.warps]
    here = next((s for s in found.steps if s.warps == found.warps), None)
    parts = [f"{s.registers} registers would give {s.warps}" for s in reversed(up)]
    if here is not None and here.registers > registers:
        parts.append(f"up to {here.registers} registers cost nothing")
    if down and here is not None:
        parts.append(f"more than {here.registers} leave {down[0].warps}")
    if found.live_max is not None:
        at = f" at {found.live_max_pc:04x}" if found.live_max_pc is not None else ""
        parts.insert(0, f"{registers} registers, at most {found.live_max} live at once{at}")
    if found.handover:
        parts.insert(0, f"setmaxnreg changes the registers a thread to {' and '.join(map(str, found.handover))}")
    if parts:
        page.paragraph("; ".join(parts), lead=(" " * LEAD, ""), indent=LEAD, style="dim")


def _mix(page: Page, function: FunctionAnalysis) -> None:
    if not function.mix:
        return
    every = sum(r.executed or 0.0 for r in function.mix)
    if every:
        parts = [f"{r.pipe} {words.percent((r.executed or 0.0) / every)}" for r in function.mix if r.executed]
        _row(page, "executed", " · ".join(parts))
        return
    inside = any(r.in_loops for r in function.mix)
    parts = [f"{r.pipe} {r.instructions}" + (f" ({r.in_loops})" if r.in_loops else "") for r in function.mix]
    _row(page, "mix", " · ".join(parts) + ("   in code (in loops)" if inside else ""))


def _accesses(page: Page, function: FunctionAnalysis) -> None:
    if not function.accesses:
        return
    counted = any(r.executed is not None for r in function.accesses)
    name = max(cells(r.access) for r in function.accesses)
    head = f"{'access':{name}}  {'in code':>7}  {'in loops':>8}  {'B/lane':>6}"
    if counted:
        head += f"  {'executed':>9}  moved a request, least"
    page.line((f"  {'memory':{LEAD - 2}}", "dim"), (head, "dim"))
    for row in function.accesses:
        text = f"{row.access:{name}}  {row.instructions:>7}  {row.in_loops or '-':>8}  "
        text += f"{row.bytes if row.bytes is not None else '-':>6}"
        style = "major" if row.stack.startswith("spill") else ""
        if row.executed is not None:
            text += f"  {_short(row.executed):>9}"
            if row.executed and row.moved is not None and row.ideal:
                text += f"  {figure(row.moved / row.executed)} {row.unit}"
                if row.moved > 1.05 * row.ideal:
                    text += f", {figure(row.ideal / row.executed)} would do"
                    style = "critical" if row.moved > 2 * row.ideal else "major"
        if row.stack:
            text += f"  {row.stack}"
        page.line(" " * LEAD, (text, style))


def _loops(page: Page, function: FunctionAnalysis) -> None:
    real = [loop for loop in function.loops if not loop.kind]
    if function.samples:
        real.sort(key=lambda loop: -(loop.share or 0.0))
    elif real:
        real.sort(key=lambda loop: (-loop.depth, -loop.own, loop.number))
    shown = real[:LOOPS_SHOWN]
    for loop in shown:
        _loop(page, loop)
    if len(real) > len(shown):
        page.line(" " * LEAD, (f"{len(real) - len(shown)} more loops (--format json has all)", "dim"))
    for kind, meaning in KINDS.items():
        some = [loop for loop in function.loops if loop.kind == kind]
        if some:
            at = ", ".join(f"{loop.start:04x}" for loop in some[:8]) + (" ..." if len(some) > 8 else "")
            _row(page, kind, f"{_count(len(some), 'loop')} at {at}: {meaning}", "dim")


def _loop(page: Page, loop: LoopView) -> None:
    facts = [f"{loop.start:04x}..{loop.end:04x}", _count(loop.own, "instruction")]
    if loop.parent is not None:
        facts.append(f"in loop {loop.parent}")
    if loop.own != loop.instructions:
        facts.append("inner loops apart")
    if loop.rounds:
        facts.append(f"{_short(loop.rounds)} rounds")
    if loop.share is not None:
        facts.append(f"{words.percent(loop.share)} of samples")
    if loop.file and loop.line:
        facts.append(f"{one_line(loop.file).rsplit('/', 1)[-1]}:{loop.line}")
    page.paragraph(", ".join(facts), lead=(f"  {'loop ' + str(loop.number):{LEAD - 2}}", "bold"), indent=LEAD)
    page.paragraph(bounds(loop, PIPES_SHOWN), lead=(" " * LEAD, ""), indent=LEAD, style="dim")


def _findings(page: Page, findings: Sequence[Finding]) -> None:
    for n, finding in enumerate(findings):
        at = ", ".join(f"{p.pc:04x}" for p in finding.locations[:6])
        lead: Segment = (f"  {'findings' if n == 0 else '':{LEAD - 2}}", "dim")
        text = f"{finding.code} {one_line(finding.rule)}"
        if finding.estimate is not None:
            text += f", {words.expectation(finding.estimate)}"
        page.line(lead, (text, finding.severity), (f"  at {at}" if at else "", "dim"))
        said = one_line(finding.why) or one_line(finding.title)
        page.paragraph(said, lead=(" " * LEAD, ""), indent=LEAD)
        if finding.fix:
            page.paragraph(one_line(finding.fix), lead=(f"{'':{LEAD}}fix  ", "good"), indent=LEAD + 5)


def _hottest(page: Page, function: FunctionAnalysis, top: int) -> None:
    """The instructions where the samples fall, with what they wait for."""
    every = function.samples or 1
    code = {one.pc: one for one in function.listing}
    ranked = sorted((o for o in function.listing if o.measured), key=lambda o: -o.measured.samples if o.measured else 0)
    page.blank()
    page.line((f"  {'hottest':{LEAD - 2}}{'samples':>7}  {'mostly':24}  caused by", "dim"))
    for one in ranked[:top]:
        measured = one.measured
        if measured is None or not measured.samples:
            break
        main = measured.stalls[0]
        share = f"{100 * measured.samples / every:.1f} %"
        why = f"{_reason(one)} {words.percent(main.samples / measured.samples)}"
        left = f"  {f'{one.pc:04x}':{LEAD - 2}}{share:>7}  {pad(why, 24)}  "
        file, number = one.inlined[-1] if one.inlined else (one.file, one.line)
        at = f"   {one_line(file).rsplit('/', 1)[-1]}:{number}" if file and number else ""
        page.line((left, ""), (_cause(one, code), ""), (at, "source"))


def _cause(one: InstructionView, code: dict[int, InstructionView]) -> str:
    """The instruction that most of the waiting here is for, or the instruction itself."""
    measured = one.measured
    needed = [pc for wait in one.waits for pc in wait.needed]
    causes = [cause.pc for cause in measured.causes if cause.pc != one.pc] if measured is not None else []
    if measured is not None and measured.stalls[0].reason.endswith("scoreboard") and not set(causes[:1]) & set(needed):
        causes = needed + causes  # the scheduling fields know better than the nearest instruction of the kind
    if causes and causes[0] in code:
        return f"{_opcode(one)} behind {causes[0]:04x} {one_line(code[causes[0]].sass)}"
    return one_line(one.sass)


def _reason(one: InstructionView) -> str:
    """The stall that most samples show; the sampler calls a wait for wgmma results a barrier."""
    reason = one.measured.stalls[0].reason if one.measured is not None and one.measured.stalls else ""
    if one.role == "tensor wait" and reason == "barrier":
        return "wgmma results"
    return one_line(reason).replace("_", " ")


def _opcode(one: InstructionView) -> str:
    words = one_line(one.sass).split()
    return next((w for w in words if not w.startswith("@")), "")


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def _short(value: float) -> str:
    return words.si(value, "").rstrip() if value >= 10_000 else f"{value:,.0f}"
