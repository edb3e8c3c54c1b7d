"""One Timeline to its TimelineAnalysis: rules, verdict or abstention, figures."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import numpy as np

from kscope.engine.findings.outcomes import judged
from kscope.engine.timelines import empty
from kscope.engine.timelines.operator_roofline import single_precision
from kscope.engine.timelines.timeline_critical import critical
from kscope.engine.timelines.timeline_memory import counters, memory
from kscope.engine.timelines.timeline_operators import operators
from kscope.engine.timelines.timeline_projected import ranges, streams
from kscope.engine.timelines.timeline_verdict import decide
from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.gaps.gap_table import CAUSES, INSIDE, LOST, PROFILER
from kscope.features.timeline.operations.intervals import covered
from kscope.features.timeline.operations.launches import Launches
from kscope.features.timeline.operations.medians import median
from kscope.features.timeline.operations.profiling import worth_profiling
from kscope.model.columns import Column, distinct
from kscope.model.contract.analysis import TimelineAnalysis
from kscope.model.contract.job import ONCE
from kscope.model.contract.timeline_figures import (
    CompiledFigures,
    DeviceUse,
    IdleCause,
    LaunchFigures,
    ProcessFigures,
    RecordingFigures,
    StepFigures,
    TimelineCoverage,
    TopKernel,
    WaitFigures,
)
from kscope.model.errors import one_line
from kscope.model.timeline import Op, Recorded
from kscope.model.units import counted
from kscope.rules.registry import program_rules
from kscope.rules.timeline_base import TimelineRule

PLACES = 3
_COSTLY = frozenset({"with_stack", "profile_memory", "with_modules"})
WAITS = 6
"""Waits of the host, and of streams, that are listed."""


def analyze_view(view: TimelineView, codes: Collection[str] | None = None) -> TimelineAnalysis:
    """codes: run only these rules (all if None). A rule that raises becomes an entry of `errors`."""
    said = judged(
        (rule.code, partial(rule().run, view))
        for rule in program_rules()
        if issubclass(rule, TimelineRule) and (codes is None or rule.code in codes)
    )
    verdict, abstained = decide(view)
    return TimelineAnalysis(
        input=view.timeline.path,
        window=view.facts.window[2],
        span_us=round(view.facts.span / 1e3, 3),
        gpu_busy_pct=round(100 * view.facts.busy_share, 3),
        compiled=_compiled(view),
        kernels_pct=round(100 * view.causes.work, 3),
        communication=view.communication_figures,
        rank=view.timeline.place.rank if view.timeline.place.rank >= 0 and view.timeline.place.world != 1 else None,
        verdict=verdict,
        abstained=abstained,
        idle=_idle(view),
        findings=said.findings,
        top_kernels=[_clean(k) for k in view.kernels],
        operators=operators(view),
        single_precision_pct=None if (wide := single_precision(view)) is None else round(100 * wide, 3),
        waits=_waits(view),
        recording=_recording(view),
        devices=_devices(view),
        steps=_steps(view),
        launches=_launches(view, view.facts.launches) if view.facts.launches is not None else None,
        processes=_processes(view),
        to_profile=worth_profiling(view.facts, view.kernels, view.causes.whole / 1e3),
        copies=view.copies,
        critical=critical(view),
        memory=memory(view),
        counters=counters(view),
        streams=streams(view),
        ranges=ranges(view),
        passed=said.passed,
        not_applicable=said.not_applicable,
        errors=said.errors,
        coverage=_coverage(view),
    )


def _clean(kernel: TopKernel) -> TopKernel:
    if kernel.name.isprintable():
        return kernel
    import msgspec

    return msgspec.structs.replace(kernel, name=one_line(kernel.name))


def _idle(view: TimelineView) -> list[IdleCause]:
    out = []
    for cause in CAUSES:
        us = view.us(cause)
        if us <= 0:
            continue
        during = [one_line(name)[:200] for name, _ in view.causes.places(cause)[:PLACES]] if cause != PROFILER else []
        gaps = view.causes.gaps.count(cause) if cause != PROFILER else 0
        pct = round(100 * view.share(cause), 3)
        out.append(IdleCause(cause=cause, us=round(us, 3), pct=pct, gaps=gaps, during=during))
    last = (INSIDE, LOST, PROFILER, ONCE)
    if len(alone := np.flatnonzero(view.causes.gaps.once)):
        us = view.causes.gaps.once_time / 1e3 / max(len(view.facts.devices), 1)
        out.append(IdleCause(cause=ONCE, us=round(us, 3), pct=0.0, gaps=len(alone), during=_single(view, alone)))
    return sorted(out, key=lambda i: (i.cause in last, -i.us))


def _single(view: TimelineView, rows: Column) -> list[str]:
    """The longest gaps that happened once: time, cause and what the host was in."""
    found = view.causes.gaps
    out = []
    for row in rows[np.argsort(-found.rest[rows], kind="stable")[:PLACES]].tolist():
        cause = CAUSES[int(found.cause[row])].replace("_", " ")
        where = view.causes.places_of(np.array([row])) if found.thread[row] >= 0 else []
        name = f" in {one_line(where[0][0])[:160]}" if where else ""
        out.append(f"{found.rest[row] / 1e6:,.1f} ms {cause}{name}")
    return out


def _devices(view: TimelineView) -> list[DeviceUse]:
    ops, names = view.timeline.ops, view.timeline.devices
    out = []
    for device in distinct(ops.device)[0].tolist():
        rows = ops.device == device
        first = int(ops.start[rows.argmax()])
        last = int(ops.end.max(where=rows, initial=first))
        busy = covered(ops.start, ops.end, first, last, rows)
        span = last - first
        out.append(
            DeviceUse(
                device=device, name=names.get(device, ""), operations=int(rows.sum()),
                kernels=int(((ops.kind == Op.KERNEL) & rows).sum()), busy_us=busy / 1e3, span_us=span / 1e3,
                idle_pct=round(100 * (1 - busy / span), 4) if span else 0.0,
            )
        )  # fmt: skip
    return out


def _steps(view: TimelineView) -> StepFigures | None:
    steps, timeline = view.facts.steps, view.timeline
    if steps is None:
        return None
    length, host = steps.length / 1e3, (steps.end - steps.start) / 1e3
    first, last = int(steps.start[0]), int(steps.end[-1])
    begin, until = int(steps.begin[0]), steps.until
    ops, calls = timeline.ops, timeline.calls
    at = ops.start if steps.periodic else view.facts.issued
    syncs = view.causes.calls["sync"] & (calls.start >= first) & (calls.start <= last) if len(calls) else np.zeros(0)
    busy = covered(ops.start, ops.end, begin, until)
    count = len(steps.start)
    return StepFigures(
        name=one_line(steps.name), count=count, periodic=steps.periodic, median_us=round(median(length), 3),
        min_us=round(float(length.min()), 3), max_us=round(float(length.max()), 3),
        kernels=round(float(((at >= first) & (at <= last)).sum()) / count, 2),
        busy_pct=round(100 * busy / max(until - begin, 1), 2),
        synchronizations=round(float(syncs.sum()) / count, 2), host_us=round(median(host), 3),
        recording_us=round(view.recorded_launch * view.span_us / count, 3),
    )  # fmt: skip


def _processes(view: TimelineView) -> list[ProcessFigures]:
    """Processes and devices where the recording holds several."""
    ops, facts = view.timeline.ops, view.facts
    if len(facts.parts) < 2:
        return []
    low, high, _ = facts.window
    out = []
    for process, device in facts.parts:
        mine = (ops.process == process) & (ops.device == device)
        found = facts.launches_of(process, device)
        out.append(
            ProcessFigures(
                process=process, device=device, operations=int(mine.sum()),
                busy_us=round(covered(ops.start, ops.end, low, high, mine) / 1e3, 3),
                launches=_launches(view, found) if found is not None else None,
            )
        )  # fmt: skip
    return out


def _launches(view: TimelineView, found: Launches) -> LaunchFigures:
    return LaunchFigures(
        count=found.count, call_us=round(found.call_us, 3), latency_us=round(found.latency_us, 3),
        queue_us=round(found.queue_us, 3), interval_us=round(found.interval_us, 3), queue_depth=found.depth,
        waits_pct=round(100 * found.waits, 2), short_kernels_pct=round(100 * found.short, 2),
        tklqt_us=round(found.tklqt_us, 3), queue_full_us=round(view.facts.queue_full / 1e3, 3),
    )  # fmt: skip


def _waits(view: TimelineView) -> list[WaitFigures]:
    found = [*view.waits.host[:WAITS], *view.waits.streams[:WAITS]]
    places = [w.stream if w.stream is not None else (None, None) for w in found]
    return [
        WaitFigures(
            call=one_line(w.call), device=device, stream=stream, on=one_line(w.on)[:300], count=w.count,
            us=round(w.ns / 1e3, 3), idle_us=round(w.idle / 1e3, 3),
            main=w.stream in view.waits.computing, said_by=w.said_by,
        )
        for w, (device, stream) in zip(found, places, strict=True)
    ]  # fmt: skip


def _recording(view: TimelineView) -> RecordingFigures | None:
    told = view.timeline.recorded
    if view.timeline.kind != "kineto":
        return None
    cost = view.recording_share
    return RecordingFigures(
        options=list(told.options), python_calls=told.python, us=round(cost * view.span_us, 3),
        pct=round(100 * cost, 3),
    )  # fmt: skip


def _compiled(view: TimelineView) -> CompiledFigures | None:
    found = view.compiled
    if found is None:
        return None
    return CompiledFigures(
        regions=found.regions, graphs_per_step=round(found.pieces, 2), compilations=len(found.compilations),
        recompilations=[c.version for c in found.recompilations],
        compile_us=round(sum(c.end - c.start for c in found.compilations) / 1e3, 3),
    )  # fmt: skip


def _slowed(told: Recorded) -> str:
    """What more than calls and operators was recorded: its cost was not measured, and is not in what recording cost."""
    calls = f" ({told.python:,} calls of Python functions)" if told.python else ""
    what = " and ".join(filter(None, (", ".join(told.options[:-1]), "".join(told.options[-1:])))) or "with_stack"
    return (
        f"recorded with {what}{calls}: it slowed the host by more than what is reckoned as the cost of recording; "
        "record without before times of the host are believed"
    )


def _coverage(view: TimelineView) -> TimelineCoverage:
    timeline, facts = view.timeline, view.facts
    seen = timeline.coverage
    notes = []
    if seen.truncated:
        notes.append(f"the file ends early ({seen.truncated}): only what is complete in it was read")
    if seen.graph_rows:
        notes.append(
            f"{seen.graph_rows} CUDA graph launches were recorded as one row each; nsys profile "
            "--cuda-graph-trace=node records their kernels"
        )
    if len(facts.lost_graphs):
        lost = len(facts.lost_graphs)
        notes.append(f"{lost} CUDA graph launches have no GPU row: what they ran is not in the recording")
    if facts.missing_launches > 0.01:
        share = f"{100 * facts.missing_launches:.0f} %"
        notes.append(f"{share} of the GPU operations have no API call in the recording")
    hidden = view.unseen
    if hidden.captured:
        captured = counted(hidden.captured, "launch")
        notes.append(f"{captured} went into a stream capture: graphs run them later, if at all")
    if hidden.lost > 0.01 * hidden.launches and len(timeline.ops):
        notes.append(f"{hidden.lost:,} of {hidden.launches:,} launches have no GPU operation in the recording")
    if timeline.recorded.python or _COSTLY.intersection(timeline.recorded.options):
        notes.append(_slowed(timeline.recorded))
    if not len(timeline.ops):
        notes += empty.notes(timeline)
    elif not len(timeline.ranges):
        notes.append("no ranges of the user: steps and places have no names; NVTX or record_function name them")
    return TimelineCoverage(
        window=facts.window[2], operations=len(timeline.ops), api_calls=len(timeline.calls),
        missing_launches_pct=round(100 * facts.missing_launches, 3), graph_rows=seen.graph_rows,
        launches=hidden.launches, captured_launches=hidden.captured, lost_launches=hidden.lost,
        lost_graphs=len(facts.lost_graphs), damaged_events=seen.damaged, truncated=seen.truncated,
        missing_tables=list(seen.missing), notes=notes,
    )  # fmt: skip
