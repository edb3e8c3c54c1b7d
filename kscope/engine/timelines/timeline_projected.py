"""Streams, and ranges projected on the GPU, as figures."""

from __future__ import annotations

from kscope.features.timeline.facts import TimelineView
from kscope.model.contract.timeline_analysis import RangeFigures, StreamFigures
from kscope.model.errors import one_line

STREAMS, RANGES = 64, 40  # that are listed


def streams(view: TimelineView) -> list[StreamFigures]:
    whole = max(view.facts.span, 1)
    return [
        StreamFigures(
            device=s.device, stream=s.stream, process=s.process, operations=s.operations,
            busy_us=round(s.busy / 1e3, 3),
            idle_pct=round(100 * (1 - s.busy / whole), 3) if view.facts.span else 0.0,
            queued_mean=round(s.queue, 3) if s.queue is not None else None, queued_max=s.queue_most,
        )
        for s in view.streams[:STREAMS]
    ]  # fmt: skip


def ranges(view: TimelineView) -> list[RangeFigures]:
    return [
        RangeFigures(
            name=one_line(r.name)[:200], count=r.count, host_us=round(r.host / 1e3, 3), operations=r.operations,
            gpu_us=round(r.gpu / 1e3, 3), projected_us=round(r.projected / 1e3, 3),
        )
        for r in view.projected[:RANGES]
    ]  # fmt: skip
