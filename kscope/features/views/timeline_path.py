"""What is drawn over and beside the rows of a timeline: the critical path, what a device's memory held, counters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.gaps.critical_path import KINDS
from kscope.features.timeline.operations.memory import courses
from kscope.model.columns import Column
from kscope.model.contract.timeline_detail import CounterCourse, MemoryCourse, PathDetail

PIECES = 20_000  # more cannot be told apart, at any zoom that shows many of them
POINTS = 2_000  # of a device's memory: some for each pixel when all is in view
ROWS = 24  # of counters
OPERATIONS, LAUNCH, HOST = 0, 1, 2


def path_detail(view: TimelineView, rows: Sequence[tuple[str, Column]], origin: int) -> PathDetail | None:
    """rows: of each row that is drawn (kind, places of its events in the table that they are from). None without a
    path. Operations of a stream and what passes between them are one piece."""
    path = view.critical
    if path is None or not len(path.start):
        return None
    start, end, kind, row = _pieces(view, rows)
    kept = np.sort(np.argsort(start - end, kind="stable")[:PIECES])
    return PathDetail(
        start=np.diff(start[kept] - origin, prepend=0).tolist(), length=(end - start)[kept].tolist(),
        kind=kind[kept].tolist(), row=row[kept].tolist(), left_out=len(start) - len(kept),
    )  # fmt: skip


def _pieces(view: TimelineView, rows: Sequence[tuple[str, Column]]) -> tuple[Column, Column, Column, Column]:
    path, timeline = view.critical, view.timeline
    assert path is not None
    of_op = np.full(len(timeline.ops), -1, dtype=np.int64)
    of_thread: dict[int, int] = {}
    for number, (what, place) in enumerate(rows):
        if what == "ops":
            of_op[place] = number
        elif what == "calls" and len(place):
            of_thread[int(timeline.calls.thread[place[0]])] = number
    start, end = path.start, path.end.copy()
    gpu = path.kind == KINDS.index("gpu")
    between = path.kind == KINDS.index("between")
    follows = np.append(between[1:], False) & gpu  # what passes between a chain's operations stands behind them
    end[follows] = end[np.flatnonzero(follows) + 1]
    stream = np.where(path.first >= 0, of_op[path.order[np.maximum(path.first, 0)]], -1)
    launch, host = path.kind == KINDS.index("launch"), path.kind == KINDS.index("host")
    row = np.where(gpu, stream, -1)
    row[launch] = np.append(row[1:], -1)[launch]  # leads to the operations behind it
    for at in np.flatnonzero(host).tolist():
        row[at] = of_thread.get(int(path.thread[at]), -1)
    kind = np.where(gpu, OPERATIONS, np.where(launch, LAUNCH, HOST))
    shown = ~between | (np.append(False, gpu[:-1]) == 0)
    return start[shown], end[shown], kind[shown], row[shown]


def memory_courses(view: TimelineView, origin: int) -> list[MemoryCourse]:
    """Of each device whose allocations were recorded."""
    out = []
    for device, curve in courses(view.facts, POINTS):
        at, allocated, reserved = (np.array(values, dtype=np.int64) for values in zip(*curve, strict=True))
        assert view.timeline.allocations is not None
        last = int(view.timeline.allocations.at[view.timeline.allocations.device == device].max())
        out.append(
            MemoryCourse(
                device=device, start=np.diff(at - origin, prepend=0).tolist(), allocated=allocated.tolist(),
                reserved=reserved.tolist(), end=last - origin, peak=int(allocated.argmax()),
            )
        )  # fmt: skip
    return out


def counter_courses(view: TimelineView, origin: int) -> list[CounterCourse]:
    """Of the counters worth a row: that say what GPUs and links were used for, and counted anything."""
    out = []
    for one in [s for s in view.sampled if s.rank is not None and s.most > 0][:ROWS]:
        counter = one.counter
        value = counter.total / np.maximum(counter.samples, 1)
        out.append(
            CounterCourse(
                title=" ".join((counter.source, counter.name))[:120], device=counter.device, unit=counter.unit,
                start=np.diff(counter.at - origin, prepend=0).tolist(), length=counter.width,
                value=[float(f"{v:.5g}") for v in value.tolist()], peak=int(value.argmax()),
            )
        )  # fmt: skip
    return out
