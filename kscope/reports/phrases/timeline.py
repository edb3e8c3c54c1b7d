"""A timeline in words: its verdict, figures, what was looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.quoted import quoted
from kscope.model.units import counted
from kscope.reports import words

if TYPE_CHECKING:
    from kscope.model.contract.analysis import JobAnalysis, TimelineAnalysis
    from kscope.model.contract.timeline_figures import TopKernel

PATH = 160  # characters of a path in a sentence: its end says most
KINDS_SHOWN = 4
_OPERATORS = 3  # that have a line
_SOURCES, _COUNTERS = 8, 6  # GPUs and network cards with a line about what was sampled, and counters in it
_LARGE, _KNOWN = 0.1, 0.8  # share of the GPU's time from which on, and of its calls' time that must be known
_NEAR, _FAR = 1.3, 1.5  # headroom up to which an operator is as good as good ones, and from which on it is not (judged)
_ALL = 95.0  # percent of the critical path in operations, from which on it says no more than the kernels' times
_WORTH = 0.02  # share of the window from which on a wait has a line


def badge(timeline: TimelineAnalysis | JobAnalysis) -> tuple[str, str, str]:
    """(word, rest of the sentence, style). Where there is no verdict, the reason."""
    if timeline.verdict is None:
        return "NO VERDICT:", one_line(timeline.abstained), "bold"
    return *words.badge(timeline.verdict), timeline.verdict.regime


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
    out += _waits(timeline)
    out += _operators(timeline)
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
        moved = "bytes not recorded"
        if copy.bytes:
            rate = words.si(copy.gb_per_s * 1e9, "B/s")
            moved = f"{words.si(copy.bytes, 'B')} at {rate}, {copy.pageable_pct:.0f} % pageable"
        out.append(
            f"{counted(copy.count, 'copy')} {one_line(copy.direction)}, {moved}, "
            f"{copy.overlapped_pct:.0f} % of the time beside kernels"
        )
    return [*out, *_critical(timeline), *_memory(timeline), *_counters(timeline)]


def _critical(timeline: TimelineAnalysis) -> list[str]:
    """What the end waited for; where nearly all of it is operations the table of kernels says the same."""
    path = timeline.critical
    if path is None or path.gpu_pct >= _ALL:
        return []
    longest = next((one for one in path.parts if one.name), None)
    most = f"; most in {quoted(longest.name)} ({words.time(longest.us)})" if longest is not None else ""
    events = f"; {counted(path.events, 'time')} from one stream to another that it waited for" if path.events else ""
    lost = counted(path.events_unknown, "wait")
    unknown = f"; {lost} between streams not followed, their events were not recorded" if path.events_unknown else ""
    return [
        f"critical path {words.time(path.us)}: {path.gpu_pct:.0f} % operations, {path.between_pct:.0f} % between them, "
        f"{path.launch_pct:.0f} % launches on their way, {path.host_pct:.0f} % the host{most}{events}{unknown}"
    ]


def _memory(timeline: TimelineAnalysis) -> list[str]:
    """What a device's memory holds at most, by whom, and what the steps leave behind."""
    out = []
    for one in timeline.memory:
        held = ", ".join(f"{words.si(h.bytes, 'B')} {quoted(h.name)}" for h in one.holders[:_OPERATORS])
        grows = f"; each step ends {words.si(one.growth_bytes, 'B')} above the one before" if one.growth_bytes else ""
        out.append(
            f"memory of device {one.device}: {words.si(one.peak_bytes, 'B')} at most, "
            f"{words.si(one.reserved_bytes, 'B')} reserved ({words.si(one.holes_bytes, 'B')} in holes at the peak); "
            f"held by {held}{grows}"
        )
    return out


def _counters(timeline: TimelineAnalysis) -> list[str]:
    """The first counters of each GPU and network card; those worth a word come first."""
    out = []
    for source in list(dict.fromkeys(one.source for one in timeline.counters))[:_SOURCES]:
        mine = [one for one in timeline.counters if one.source == source and one.max > 0][:_COUNTERS]
        said = ", ".join(
            f"{quoted(one.name)} {_amount(one.mean, one.unit)} (to {_amount(one.max, one.unit)})" for one in mine
        )
        out += [f"sampled of {quoted(source)}: {said}"] if said else []
    return out


def _amount(value: float, unit: str) -> str:
    return f"{value:.3g} %" if unit == "%" else f"{value:,.4g} {one_line(unit)}".strip()


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


def _waits(timeline: TimelineAnalysis) -> list[str]:
    """Whom the host waits for before the GPU idles, and whom the stream that computes waits for."""
    out = []
    for one in timeline.waits:
        sure = ", probably" if one.said_by == "guess" else ""
        what = f"{quoted(one.on)} ({counted(one.count, 'time')}, {words.time(one.us)}{sure})"
        if one.call and one.idle_us >= _WORTH * timeline.span_us:
            out.append(f"the host waits in {quoted(one.call)} for {what}; the GPU then idles {words.time(one.idle_us)}")
        elif one.main and one.us >= _WORTH * timeline.span_us:
            out.append(f"stream {one.stream} of device {one.device}, which computes, waits for {what}")
    return out


def to_gain(timeline: TimelineAnalysis) -> list[str]:
    """Names of operators that TF32 or better kernels would shorten; no rule prices that, since it was not measured."""
    return [
        one.name
        for one in timeline.operators
        if (roof := one.roofline) is not None and one.share >= _LARGE and roof.known >= _KNOWN
        and (roof.headroom >= _FAR or (roof.tf32_speedup is not None and roof.headroom < 2))
    ]  # fmt: skip


def _operators(timeline: TimelineAnalysis) -> list[str]:
    """Operators that take much of the GPU's time, where it matters how near they are to what the device can do."""
    out = []
    for one in timeline.operators:
        roof = one.roofline
        if roof is None or one.share < _LARGE or roof.known < _KNOWN:
            continue
        what = f"{quoted(one.name)} takes {words.percent(one.share)} of the GPU's time, at"
        peak = f"{words.percent(roof.pct_of_roof / 100)} of the peak of {one_line(roof.bounded_by)}"
        if roof.tf32_speedup is not None and roof.headroom < 2:
            out.append(f"{what} {peak}: TF32 (float32_matmul_precision) is up to {words.times(roof.tf32_speedup)}")
        elif roof.headroom <= _NEAR:
            out.append(f"{what} {peak}: only less work or narrower data would shorten it")
        elif roof.headroom >= _FAR:
            out.append(
                f"{what} {peak}, counted by the sizes of its tensors: better kernels would make it at most "
                f"{words.times(roof.headroom)} as fast"
            )
    return out[:_OPERATORS]


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


def shape(kernel: TopKernel) -> str:
    if not any(kernel.grid):
        return ""
    return f"grid {words.dims(kernel.grid)} block {words.dims(kernel.block)}"
