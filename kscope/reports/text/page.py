"""The terminal report: the sentence, the proof, the next step, in that order. Colour adds nothing to the words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import UNSET

from kscope.model.errors import one_line
from kscope.model.units import figure
from kscope.reports import next_step, words
from kscope.reports.phrases import hot
from kscope.reports.phrases.job import in_full
from kscope.reports.terminal import Page, Segment, bar, cells, clip, pad
from kscope.reports.text import job as of_job
from kscope.reports.text import joined as program
from kscope.reports.text import pipeline
from kscope.reports.text import timeline as recording
from kscope.reports.text.suggestions import suggestions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.analysis import Analysis, KernelAnalysis, Roofline
    from kscope.model.contract.findings import NvidiaFinding
    from kscope.reports import Options

UNITS_SHOWN = 6
STALLS_SHOWN = 6
NVIDIA_SHOWN = 5
NVIDIA_ROWS = 5  # of a table of its rules
TABLE_ROWS = 20
DETAILED = 3
NAMED = 24  # columns that a name needs beside the figures to be told from others


def render(analysis: Analysis, options: Options) -> str:
    """The report at `options.width` columns, ending in a newline."""
    page = Page(max(options.width, 40), color=options.color, unicode=options.unicode, cuts=options.cuts)
    for joined in analysis.joined:
        page.blank()
        program.render(page, joined, verbose=options.verbose)
    kernels = words.by_time(analysis.kernels)
    if analysis.joined:
        page.blank()
        page.line(("─" * page.width, "dim"))
    shown = kernels if options.verbose else kernels[:DETAILED]
    if len(kernels) > 1:
        _table(page, kernels, verbose=options.verbose)
    several_inputs = len({k.input for k in kernels}) > 1
    for kernel in shown:
        page.blank()
        if len(kernels) > 1:
            page.line(("─" * page.width, "dim"))
        _kernel(page, kernel, verbose=options.verbose, name_input=several_inputs)
    for job in analysis.jobs:
        page.blank()
        if page.lines:
            page.line(("─" * page.width, "dim"))
        of_job.render(page, job, verbose=options.verbose)
    recordings = in_full(analysis, verbose=options.verbose)
    for timeline in recordings:
        page.blank()
        if page.lines:
            page.line(("─" * page.width, "dim"))
        recording.render(page, timeline, verbose=options.verbose)
    if not kernels and not analysis.timelines:
        page.line("No kernels to show.")
    page.blank()
    if folded := len(analysis.timelines) - len(recordings):
        page.line((f"{folded} more recording{'s' * (folded > 1)} of these jobs (kscope analyze -v shows all)", "dim"))
    if left := len(kernels) - len(shown):
        page.line((f"{left} more kernel{'s' * (left > 1)} in the table only (kscope analyze -v details all)", "dim"))
    for skip in analysis.skipped:
        message = skip.message.removeprefix(f"{skip.input}: ")
        text = f"{one_line(skip.input)}: {one_line(skip.what)}: {one_line(message)}"
        page.paragraph(text, lead=("skipped  ", "overhead"), indent=9)
    return page.text()


def _table(page: Page, kernels: Sequence[KernelAnalysis], *, verbose: bool) -> None:
    whole = sum(words.total_us(k) for k in kernels)
    rows = kernels if verbose else kernels[:TABLE_ROWS]
    devices = " and ".join(sorted({words.device(k) for k in kernels}))
    page.line((f"{len(kernels)} kernels, {words.time(whole)}", "bold"), f" on {devices}")
    page.blank()
    room = page.width - 64
    narrow = room < NAMED  # the name has a line of its own then, the figures the next
    head = "regime   limiter        up to  first"
    page.line((f" share      time  {head if narrow else pad('kernel', room) + ' ' + head}", "dim"))
    for kernel in rows:
        _table_row(page, kernel, whole, room, narrow=narrow)
    if left := len(kernels) - len(rows):
        rest = sum(words.total_us(k) for k in kernels[len(rows) :])
        share = f", {words.percent(rest / whole)} of the time" if whole else ""
        page.line((f"       {left} more{share} (kscope analyze -v lists all)", "dim"))


def _table_row(page: Page, kernel: KernelAnalysis, whole: float, room: int, *, narrow: bool) -> None:
    first = next((f for f in kernel.findings if f.severity != "info"), None)
    gain = f" {words.times(first.estimate.speedup)}" if first and first.estimate else ""
    many = f" x{kernel.repeats.count}" if kernel.repeats and kernel.repeats.count > 1 else ""
    bound = words.headroom(kernel.headroom) if kernel.headroom else "-"
    share = words.percent(words.total_us(kernel) / whole) if whole else "-"
    width = page.width - 2 if narrow else room
    name = words.shorten(words.without_parameters(kernel.demangled or kernel.name), max(width - len(many), 8)) + many
    if narrow:
        page.line("  ", (name, "bold"))
    page.line(
        f"{share:>6} {words.time(words.total_us(kernel)) if kernel.duration_us else '-':>9}  ",
        *([] if narrow else [(pad(name, room), "bold"), (" ", "")]),
        (pad(kernel.verdict.regime, 8), kernel.verdict.regime),
        f" {pad(words.limiter(kernel.verdict.limiter), 14)} {bound:>5} {'' if narrow else ' '}",
        (f"{first.code}{gain}" if first else "-", "code"),
    )  # fmt: skip


def _kernel(page: Page, kernel: KernelAnalysis, *, verbose: bool, name_input: bool) -> None:
    _heading(page, kernel, verbose=verbose, name_input=name_input)
    page.blank()
    word, sentence = words.badge(kernel.verdict)
    page.paragraph(sentence, lead=(f"  {word} ", kernel.verdict.regime), indent=2)
    _margin(page, kernel, sentence, verbose=verbose)
    if kernel.next_step:
        page.paragraph(next_step.short(kernel.next_step), lead=("  next  ", "good"), indent=8)
    if kernel.problem:
        for n, text in enumerate(words.problem(kernel.problem)):
            page.paragraph(text, lead=("  problem  " if n == 0 else " " * 11, "dim"), indent=11)
    if kernel.warp_specialization is not None:
        pipeline.write(page, kernel, verbose=verbose)
    _proof(page, kernel, verbose=verbose)
    suggestions(page, kernel, verbose=verbose)
    _silent(page, kernel, verbose=verbose)
    _nvidia(page, kernel, verbose=verbose)
    for note in kernel.notes:
        page.paragraph(one_line(note), lead=("  note  ", "dim"), indent=8)


def _heading(page: Page, kernel: KernelAnalysis, *, verbose: bool, name_input: bool) -> None:
    took = words.time(kernel.duration_us)
    name = one_line(kernel.demangled or kernel.name) or "(unnamed kernel)"
    if not verbose:
        name = words.shorten(name, page.width - len(took) - 2)
    if not page.ends([(name, "bold")], (took, "bold")):
        page.paragraph(name, style="bold", indent=2)
        page.line("  ", (took, "bold"))
    page.paragraph(f"{words.device(kernel)}, {words.launch(kernel)}", lead=("  ", ""), indent=2, style="dim")
    if many := words.repeats(kernel):
        page.paragraph(many, lead=("  ", ""), indent=2, style="dim")
    if name_input:
        page.paragraph(f"from {one_line(kernel.input)}", lead=("  ", ""), indent=2, style="dim")
    if kernel.nvtx:
        page.paragraph("in " + " / ".join(one_line(n) for n in kernel.nvtx), lead=("  ", ""), indent=2, style="dim")
    if kernel.workload != "kernel":
        page.line(("  ", ""), (f"profiled as one {one_line(kernel.workload)}, not as single kernels", "dim"))


def _margin(page: Page, kernel: KernelAnalysis, sentence: str, *, verbose: bool) -> None:
    """What the sentence may not say: how far it can go, and how sure the verdict is where it is not."""
    parts = []
    if kernel.headroom and (verbose or words.headroom(kernel.headroom) not in sentence):
        bound = words.headroom(kernel.headroom)
        parts.append(f"headroom {bound}, bounded by {one_line(kernel.headroom.bounded_by)}")
    if verbose or (kernel.verdict.confidence < words.UNSURE and kernel.verdict.regime != "unknown"):
        parts.append(f"confidence {words.percent(kernel.verdict.confidence)}")
    if parts:
        page.paragraph(" · ".join(parts), lead=("  ", ""), indent=2, style="dim")


def _proof(page: Page, kernel: KernelAnalysis, *, verbose: bool) -> None:
    units = sorted(kernel.utilization, key=lambda u: -u.pct)
    if units:
        page.blank()
        page.line(("  busy, % of peak", "dim"))
        _bars(page, [(u.unit, u.pct / 100) for u in (units if verbose else units[:UNITS_SHOWN])])
    if kernel.roofline:
        page.blank()
        _roofline(page, kernel.roofline)
    if kernel.stalls:
        _stalls(page, kernel, verbose=verbose)
    if verbose and kernel.hot:
        page.blank()
        page.line(("  hottest instructions", "dim"))
        _hottest(page, kernel)
    elif (first := hot.hottest(kernel)) is not None:
        page.blank()
        lead = f"  hottest  {words.percent(first.share)} "
        page.line((lead, "dim"), (f"{one_line(first.sass)}  ", "bold"), (f"at {hot.place(first)}", "code"))
        page.paragraph(hot.told(kernel, first), lead=(" " * 11, ""), indent=11)


def _stalls(page: Page, kernel: KernelAnalysis, *, verbose: bool) -> None:
    stalls = sorted(kernel.stalls, key=lambda s: -s.share_adjusted)
    moved = [s for s in stalls if abs(s.share_raw - s.share_adjusted) >= 0.02]
    page.blank()
    page.line(("  what warps wait for, % of their time" + (" (adjusted)" if moved else ""), "dim"))
    least, most = (0.0001, len(stalls)) if verbose else (0.01, STALLS_SHOWN)
    kept = [s for s in stalls if s.share_adjusted >= least][:most]
    _bars(page, [(s.reason.replace("_", " "), s.share_adjusted) for s in kept])
    if moved and kernel.warp_specialization is None:
        raw = ", ".join(f"{one_line(s.reason).replace('_', ' ')} {words.percent(s.share_raw)}" for s in moved[:4])
        page.paragraph(f"raw samples say {raw}", lead=("  ", ""), indent=2, style="dim")


def _hottest(page: Page, kernel: KernelAnalysis) -> None:
    previous = ""
    for one in kernel.hot:
        at = f"{one_line(one.file or '')}:{one.line}" if one.line else ""
        page.line(f"  {words.percent(one.share):>5}  {one.pc:06x}  {one_line(one.sass)}")
        page.paragraph(hot.told(kernel, one), lead=(" " * 17, ""), indent=17, style="note")
        if at and at != previous:
            page.line((f"                 {clip(at, page.width // 2)}  {one_line(one.source or '')}", "dim"))
        previous = at


def _bars(page: Page, rows: Sequence[tuple[str, float]]) -> None:
    """Two labelled bars a line, in columns: read down, then right."""
    half = (page.width - 2) // 2
    label = min(max((cells(one_line(name)) for name, _ in rows), default=0), 20)
    width = half - label - 9
    down = -(-len(rows) // 2)
    for left in range(down):
        segments: list[Segment] = [("  ", "")]
        for i in (left, left + down):
            if i < len(rows):
                name, share = rows[i]
                segments += [(pad(one_line(name), label) + " ", ""), (pad(bar(share, width), width), "bar")]
                segments += [(f" {words.percent(share):>5}  ", "")]
        page.line(*segments)


def _roofline(page: Page, roof: Roofline) -> None:
    """A text roofline: the slope of the memory roof up to the ridge, then the flat compute roof, and the kernel."""
    column = page.width - 40
    low, high = -6.0, 12.0  # 1/64 to 4096 FLOP a byte

    def at(intensity: float) -> int:
        part = (math.log2(max(intensity, 1e-9)) - low) / (high - low)
        return min(max(round(part * (column - 1)), 0), column - 1)

    under = "the memory roof"
    if roof.ridge:
        line = list("╱" * at(roof.ridge) + "─" * (column - at(roof.ridge)))
        if roof.intensity is not None:
            line[at(roof.intensity)] = "●"
        if roof.intensity is None or roof.intensity >= roof.ridge:
            under = f"the {words.precision(one_line(roof.precision))} roof"
        right = f" compute, {roof.pct_of_roof:.0f} %"
        page.line(("  roofline ", "dim"), ("memory ", ""), ("".join(line), "bar"), right)
    text = f"{roof.pct_of_roof:.0f} % of {under}: {words.rates(roof)}"
    if roof.intensity is not None:
        text += f", {figure(roof.intensity)} FLOP/B" + (f" (ridge {figure(roof.ridge)})" if roof.ridge else "")
    page.paragraph(text, lead=("  ", ""), indent=2)


def _silent(page: Page, kernel: KernelAnalysis, *, verbose: bool) -> None:
    """Rules that found nothing, could not look, or failed."""
    page.blank()
    counts = f"passed {len(kernel.passed)} · not applicable {len(kernel.not_applicable)}"
    if not verbose:
        page.line((f"  {counts} (kscope analyze -v lists them)", "dim"))
    else:
        page.line((f"  {counts}", "dim"))
        if kernel.passed:
            page.paragraph(" ".join(kernel.passed), lead=("  passed  ", "good"), indent=10)
        for item in kernel.not_applicable:
            page.paragraph(one_line(item.why), lead=(f"  {item.code}  ", "dim"), indent=10, style="dim")
    for error in kernel.errors:
        page.paragraph(one_line(error.message), lead=(f"  {error.code} failed  ", "critical"), indent=4)


def _tables(page: Page, item: NvidiaFinding) -> None:
    """The tables of a rule's result: a line a row, its cells in the order of the headers."""
    for table in () if item.tables is UNSET else item.tables:
        page.line((f"          {one_line(table.title)}: {' | '.join(map(one_line, table.headers))}", "dim"))
        for row in table.rows[:NVIDIA_ROWS]:
            page.line((f"          {' | '.join(map(one_line, row))}", "dim"))


def _nvidia(page: Page, kernel: KernelAnalysis, *, verbose: bool) -> None:
    """NVIDIA's own findings, largest promise first, folded to a line each."""
    if not kernel.nvidia:
        return
    ranked = sorted(kernel.nvidia, key=lambda n: -(n.speedup_pct or 0.0))
    kept = ranked if verbose else ranked[:NVIDIA_SHOWN]
    page.blank()
    page.line(("  NVIDIA's own rules (their estimate)", "dim"))
    for item in kept:
        gain = f"{item.speedup_pct:.0f} %" if item.speedup_pct is not None else ""
        text = f"{one_line(item.title)}: {one_line(item.message)}" if verbose else one_line(item.title or item.message)
        lead = f"  {gain:>6}  {one_line(item.rule)}  "
        if verbose:
            page.paragraph(text, lead=(clip(lead, page.width // 2), ""), indent=10, style="dim")
            _tables(page, item)
        else:
            page.line(lead, (text, "dim"))
    if left := len(ranked) - len(kept):
        page.line((f"          {left} more (-v)", "dim"))
