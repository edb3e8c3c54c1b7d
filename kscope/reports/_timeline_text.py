"""A timeline in the terminal report: the sentence, where the time goes, the kernels, the suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.quoted import quoted
from kscope.model.units import counted
from kscope.reports import words
from kscope.reports._suggestions import suggestions
from kscope.reports.terminal import Page, bar, pad

if TYPE_CHECKING:
    from kscope.model.analysis import JobAnalysis, TimelineAnalysis
    from kscope.model.timeline_figures import TopKernel

IDLE_SHOWN = 5
PATH = 160  # characters of a path in a sentence: its end says most
KERNELS_SHOWN = 6
KINDS_SHOWN = 4
_MOVES = {"memory": "data", "compute": "math", "communication": "comm"}
_NOT_IDLE = {
    "inside_graph": "between the nodes of a graph",
    "graph_not_recorded": "in graphs that were not recorded",
    "profiler": "in the profiler",
    "one_off": "once, not in the steady state",
}
_LEFT_OUT = ("profiler", "one_off")
CAUSES = {
    "launch": "waiting for launches",
    "graph_launch": "waiting for a graph launch",
    "synchronization": "after a synchronisation",
    "blocking_copy": "host prepares a copy",
    "host": "host code without CUDA calls",
    "data_loading": "data loading",
    "allocation": "allocating memory",
    "code_loading": "loading or compiling code",
    "start_up": "making streams, events, pools",
    "queued": "issued, waiting its turn",
    "unknown": "unknown: no API call",
    **_NOT_IDLE,
}
"""Cause in JSON v1 -> what people read."""


def badge(timeline: TimelineAnalysis | JobAnalysis) -> tuple[str, str, str]:
    """(word, rest of the sentence, style). Where there is no verdict, the reason."""
    if timeline.verdict is None:
        return "NO VERDICT:", one_line(timeline.abstained), "bold"
    word, _, rest = one_line(timeline.verdict.sentence).partition(" ")
    return word, rest, timeline.verdict.regime


def figures(timeline: TimelineAnalysis) -> list[str]:
    """Lines of figures beside the tables: steps, launches, copies."""
    out = []
    if (steps := timeline.steps) is not None:
        name = "found by their period" if steps.periodic else quoted(steps.name)
        out.append(
            f"{counted(steps.count, 'step')} of {words.time(steps.median_us)} ({words.time(steps.min_us)} to "
            f"{words.time(steps.max_us)}; {name}), each {counted(steps.kernels, 'GPU operation')} and "
            f"{counted(steps.synchronizations, 'synchronisation')}"
        )
    if (launches := timeline.launches) is not None:
        full = f", queue full for {words.time(launches.queue_full_us)}" if launches.queue_full_us else ""
        out.append(
            f"launch to start {words.time(launches.latency_us)}, {words.time(launches.interval_us)} between launches, "
            f"queue depth {launches.queue_depth:.0f} (medians){full}"
        )
    for one in timeline.processes:
        if (of_it := one.launches) is not None:
            out.append(
                f"process {one.process} on device {one.device}: {counted(one.operations, 'operation')}, busy "
                f"{words.time(one.busy_us)}, {words.time(of_it.interval_us)} between launches, queue depth "
                f"{of_it.queue_depth:.0f}"
            )
    if (compiled := timeline.compiled) is not None:
        again = f", {len(compiled.recompilations)} of them again" if compiled.recompilations else ""
        work = f"; {counted(compiled.compilations, 'compilation')}, {words.time(compiled.compile_us)}{again}"
        out.append(
            f"torch.compile: {counted(compiled.graphs_per_step, 'compiled graph', '.3g')} a step, regions "
            + ", ".join(f"{quoted(name)} x{count:d}" for name, count in list(compiled.regions.items())[:6])
            + (work if compiled.compilations else "")
        )
    out += communication(timeline)
    for copy in timeline.copies:
        out.append(
            f"{counted(copy.count, 'copy')} {one_line(copy.direction)}, {words.si(copy.bytes, 'B')} at "
            f"{words.si(copy.gb_per_s * 1e9, 'B/s')}, "
            f"{copy.pageable_pct:.0f} % pageable, {copy.overlapped_pct:.0f} % of the time beside kernels"
        )
    return out


def communication(timeline: TimelineAnalysis) -> list[str]:
    """Lines about what was sent between ranks: in all, and its kinds."""
    found = timeline.communication
    if found is None:
        return []
    waits = f", {words.time(found.waiting_us)} of that waiting for other ranks" if found.waiting_us is not None else ""
    out = [
        f"communication {words.time(found.us)} ({found.pct:.1f} %), {words.time(found.overlapped_us)} beside other "
        f"kernels, {words.time(found.exposed_us)} exposed{waits}"
    ]
    for kind in found.kinds[:KINDS_SHOWN]:
        group = f" on {quoted(kind.group)} of {kind.size}" if kind.group else ""
        size = f", {words.si(kind.bytes / max(kind.count, 1), 'B')} each" if kind.bytes else ""
        out.append(
            f"{quoted(kind.what)}{group}: {counted(kind.count, 'time')}{size}, {words.time(kind.us)}, "
            f"{words.time(kind.exposed_us)} exposed"
        )
    return out


def worth_profiling(timeline: TimelineAnalysis) -> list[str]:
    """The commands that profile the kernels worth it; only where kernels are what the time goes into."""
    told = timeline.verdict
    if told is not None and told.regime == "overhead":
        return []
    return [
        f"{one_line(k.command)}   ({words.percent(k.share)} of the time: {words.times(k.speedup_bound)} at most)"
        for k in timeline.to_profile
    ]


def generated(kernel: TopKernel) -> str:
    """What a kernel of torch.compile fuses, and the file of its source."""
    parts = [f"fuses {', '.join(map(quoted, kernel.operators))}"] if kernel.operators else []
    parts += [quoted(kernel.source, PATH)] if kernel.source else []
    return "; ".join(parts)


def about(timeline: TimelineAnalysis) -> str:
    """What was looked at: window, devices, GPU busy share."""
    if not timeline.coverage.operations:
        return "the recording holds nothing of a GPU"
    devices = ", ".join(f"{quoted(d.name) if d.name else 'device'} {d.device}: idle {d.idle_pct:.1f} % first to last "
                        "operation" for d in timeline.devices)  # fmt: skip
    own, lone = profiled(timeline), single(timeline)
    left = [f"{words.time(own)} of it the profiler's"] if own else []
    left += [f"{words.time(lone)} {'' if own else 'of it '}gaps that happened once"] if lone else []
    part = f" ({' and '.join(left)}, which shares leave out)" if left else ""
    return f"window {words.time(timeline.span_us)}{part}, {one_line(timeline.window)}; {devices}"


def profiled(timeline: TimelineAnalysis) -> float:
    """Time of the window that is the profiler's, us; 0 where it is too little to be worth a word."""
    own = sum(i.us for i in timeline.idle if i.cause == "profiler")
    return own if own >= 0.01 * timeline.span_us else 0.0


def single(timeline: TimelineAnalysis) -> float:
    """Time of the window in gaps that happened once, us."""
    return sum(i.us for i in timeline.idle if i.cause == "one_off")


def busy(timeline: TimelineAnalysis) -> float:
    """Percent of the window, less the profiler's part and what happened once as in all shares shown, in which a GPU
    operation runs."""
    left = timeline.span_us - profiled(timeline) - single(timeline)
    return timeline.gpu_busy_pct * timeline.span_us / max(left, 1e-9)


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
    if timeline.verdict is not None and (verbose or timeline.verdict.confidence < 0.6):
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
    shown = [i for i in timeline.idle if verbose or i.pct >= 0.1 or i.cause in _NOT_IDLE]
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
