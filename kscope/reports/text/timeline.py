"""A timeline in the terminal report: the sentence, where the time goes, the kernels, the suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.units import counted
from kscope.reports import words
from kscope.reports._reasons import CAUSES, NOT_IDLE
from kscope.reports.phrases.timeline import about, badge, busy, figures, generated, worth_profiling
from kscope.reports.terminal import Page, bar, pad
from kscope.reports.text.suggestions import suggestions

if TYPE_CHECKING:
    from kscope.model.contract.analysis import TimelineAnalysis
    from kscope.model.contract.timeline_figures import TopKernel

IDLE_SHOWN = 5
KERNELS_SHOWN = 6
_LEFT_OUT = ("profiler", "one_off")
_MOVES = {"memory": "data", "compute": "math", "communication": "comm"}


def render(page: Page, timeline: TimelineAnalysis, *, verbose: bool) -> None:
    """The whole timeline."""
    share = f"GPU busy {busy(timeline):.1f} %"
    name = words.middle(one_line(timeline.input), page.width - len(share) - 2)
    if not page.ends([(name, "bold")], (share, "bold")):
        page.line((name, "bold"))
    page.paragraph(about(timeline), lead=("  ", ""), indent=2, style="dim")
    page.blank()
    word, sentence, style = badge(timeline)
    page.paragraph(sentence, lead=(f"  {word} ", style), indent=2)
    if timeline.verdict is not None and (verbose or timeline.verdict.confidence < words.UNSURE):
        page.line((f"  confidence {words.percent(timeline.verdict.confidence)}", "dim"))
    _idle(page, timeline, verbose=verbose)
    _kernels(page, timeline, verbose=verbose)
    page.blank()
    for line in figures(timeline):
        page.paragraph(line, lead=("  ", ""), indent=4, style="dim")
    suggestions(page, timeline, verbose=verbose)
    for number, line in enumerate(worth_profiling(timeline)):
        if not number:
            page.blank()
        page.paragraph(line, lead=("  profile  ", "dim"), indent=11)
    _silent(page, timeline, verbose=verbose)


def _idle(page: Page, timeline: TimelineAnalysis, *, verbose: bool) -> None:
    shown = [i for i in timeline.idle if verbose or i.pct >= 0.1 or i.cause in NOT_IDLE]
    shown = shown if verbose else shown[:IDLE_SHOWN]
    if not shown:
        return
    page.blank()
    page.line(("  the GPU is idle", "dim"))
    for row in shown:
        title = pad(CAUSES.get(row.cause, one_line(row.cause)), 33)
        if row.cause in _LEFT_OUT:  # no share of what is left without it
            page.line(f"  {title}{'':21} {words.time(row.us):>9}")
        else:
            page.line(
                f"  {title} ", (pad(bar(row.pct / 100, 12), 12), "bar"),
                f" {words.percent(row.pct / 100):>6} {words.time(row.us):>9}",
            )  # fmt: skip
        if row.during:
            page.paragraph(f"in {', '.join(one_line(n) for n in row.during)}", lead=("    ", ""), indent=6, style="dim")


def _kernels(page: Page, timeline: TimelineAnalysis, *, verbose: bool) -> None:
    kernels = timeline.top_kernels
    if not kernels:
        return
    shown = kernels if verbose else kernels[:KERNELS_SHOWN]
    page.blank()
    room = page.width - 45
    page.line((f"  share      time   count      mean  {pad('kernel', room)} does", "dim"))
    for kernel in shown:
        name = words.shorten(words.without_parameters(one_line(kernel.name)), room)
        page.line(
            f"  {words.percent(kernel.share):>5} {words.time(kernel.total_us):>9} {kernel.count:>7} "
            f"{words.time(kernel.mean_us):>9}  ",
            (pad(name, room), "bold"), " ", (_does(kernel), "dim"),
        )  # fmt: skip
        if (text := _uneven(kernel)) and (verbose or kernel.share >= 0.05):
            page.paragraph(text, lead=(" " * 37, ""), indent=37, style="dim")
        if verbose and (text := generated(kernel)):
            page.paragraph(text, lead=(" " * 37, ""), indent=37, style="dim")
    if left := len(kernels) - len(shown):
        page.line((f"  {left} more (kscope analyze -v)", "dim"))


def _uneven(kernel: TopKernel) -> str:
    """Where some launches of a kernel take far longer than the others: how many, how long."""
    spread = kernel.spread
    if spread is None or not spread.outliers or spread.outliers_share < 0.1 or kernel.kind == "communication":
        return ""
    return (
        f"{counted(spread.outliers, 'launch')} far over the median of {words.time(spread.median_us)}, up to "
        f"{words.time(spread.max_us)}"
    )


def _does(kernel: TopKernel) -> str:
    """What a kernel does; with a question mark where its own name does not say it."""
    return _MOVES.get(kernel.kind, "-") + ("?" if kernel.kind_said_by in ("namespace", "template") else "")


def _silent(page: Page, timeline: TimelineAnalysis, *, verbose: bool) -> None:
    page.blank()
    page.line((f"  passed {len(timeline.passed)} · not applicable {len(timeline.not_applicable)}", "dim"))
    for item in timeline.not_applicable if verbose else []:
        page.paragraph(one_line(item.why), lead=(f"  {item.code}  ", "dim"), indent=10, style="dim")
    for error in timeline.errors:
        page.paragraph(one_line(error.message), lead=(f"  {error.code} failed  ", "critical"), indent=4)
    for note in timeline.coverage.notes:
        page.paragraph(one_line(note), lead=("  note  ", "dim"), indent=8)
