"""What several timeline rules need of one Timeline, computed once, on first use. Times in ns.

Definitions: idle share = 1 - |union of GPU operations| / window; launch latency = start of the operation - start of the
API call; queue delay = start of the operation - end of the call, floored at 0.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.features.intervals import Cover, union
from kscope.features.timeline_steps import Steps, find_steps, join
from kscope.model.timeline import Column, Op, Timeline, distinct

Mask = NDArray[np.bool_]
SHORT_NS = 10_000
"""A kernel below this is about as long as its launch (5 to 20 us on the host)."""
_FLIGHT_NS = 6_000  # start of a launch call to start of its kernel on an idle GPU: 5 to 7 us on an H200, profiled
_SLOWEST_FLIGHT_NS = 12_000
_FLIGHTS = 10
_SLACK = 1.25
_SIDE = 0.05  # a device with less than this of the busiest one's time takes no part in the verdict


class Launches(Struct, frozen=True):
    """Medians over the launches that the recording ties to an operation. Times in us.

    waits: share of operations that were issued only after the GPU had finished everything before. depth: operations
    issued but not started when the next one is issued. tklqt_us: sum of launch to start over all operations
    (arXiv 2504.11750).
    """

    count: int
    call_us: float
    latency_us: float
    queue_us: float
    depth: float
    waits: float
    short: float
    interval_us: float
    tklqt_us: float


class TimelineFacts:
    """A Timeline and what is derived from it."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline

    def named(self, pattern: str) -> Mask:
        """Which of Timeline.names match, as a mask to index with a name column."""
        found = re.compile(pattern)
        return np.array([found.search(n) is not None for n in self.timeline.names] or [False])

    @cached_property
    def call_of(self) -> Column:
        """For each operation the index of the API call that launched it, -1 where the recording has none."""
        return join(self.timeline)

    @cached_property
    def flight(self) -> int:
        """Time from the start of a launch call to the start of its operation when nothing is in the way, ns: of this
        recording where it has such launches."""
        at = self.call_of >= 0
        if not at.any():
            return _FLIGHT_NS
        latency = self.timeline.ops.start[at] - self.timeline.calls.start[self.call_of[at]]
        quick = latency[(latency > 0) & (latency <= _SLOWEST_FLIGHT_NS)]
        return int(_SLACK * np.median(quick)) if len(quick) >= _FLIGHTS else _FLIGHT_NS

    @cached_property
    def steps(self) -> Steps | None:
        return find_steps(self.timeline, self.call_of)

    @cached_property
    def window(self) -> tuple[int, int, str]:
        """(start, end, what it is): the steps where there are some, else first to last GPU operation."""
        ops = self.timeline.ops
        if not len(ops):
            return 0, 0, "no GPU operation"
        low, high = int(ops.start[0]), int(ops.end.max())
        steps = self.steps
        if steps is None or steps.periodic:
            return low, high, "first to last GPU operation"
        begin, end = int(steps.start[0]), int(steps.end[-1])
        calls = self.timeline.calls
        issued = np.where(self.call_of >= 0, calls.start[self.call_of] if len(calls) else 0, ops.start)
        mine = (issued >= begin) & (issued <= end)
        if int((ops.end - ops.start)[mine].sum()) * 2 < int((ops.end - ops.start).sum()):
            return low, high, "first to last GPU operation"
        end = max(end, int(ops.end[mine].max()))
        return begin, end, f"{len(steps.start)} steps, {steps.name}"

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """Devices that do a share of the work worth speaking of, busiest first."""
        ops = self.timeline.ops
        found, inverse = distinct(ops.device)
        time = np.bincount(inverse, weights=(ops.end - ops.start).astype(float), minlength=len(found))
        order = np.argsort(-time, kind="stable")
        return tuple(int(found[i]) for i in order if time[i] >= _SIDE * time.max())

    def chosen(self, device: int, *kinds: Op) -> Mask:
        ops = self.timeline.ops
        mask: Mask = ops.device == device
        return mask & np.isin(ops.kind, kinds) if kinds else mask

    def cover(self, device: int, *kinds: Op) -> Cover:
        """When a device ran operations (of these kinds), clipped to the window."""
        ops, mask = self.timeline.ops, self.chosen(device, *kinds)
        return union(ops.start[mask], ops.end[mask], *self.window[:2])

    @cached_property
    def span(self) -> int:
        """Length of the window, ns."""
        return max(self.window[1] - self.window[0], 0)

    @cached_property
    def work_share(self) -> float:
        """Share of the window in which kernels, sets or whole graphs ran; mean over the devices."""
        return self._share(Op.KERNEL, Op.MEMSET, Op.GRAPH)

    @cached_property
    def busy_share(self) -> float:
        """Share of the window in which any GPU operation ran; mean over the devices."""
        return self._share()

    def _share(self, *kinds: Op) -> float:
        if not self.span or not self.devices:
            return 0.0
        return sum(self.cover(d, *kinds).length for d in self.devices) / (self.span * len(self.devices))

    @cached_property
    def missing_launches(self) -> float:
        """Share of GPU operations without an API call."""
        return float((self.call_of < 0).mean()) if len(self.call_of) else 0.0

    @cached_property
    def lost_graphs(self) -> Column:
        """Indices of graph launches of which no operation was recorded."""
        launches = np.flatnonzero(self.named(r"GraphLaunch")[self.timeline.calls.name])
        return np.setdiff1d(launches, self.call_of) if len(launches) else launches

    @cached_property
    def launches(self) -> Launches | None:
        """Launch figures inside the window; None where nothing ties calls to operations."""
        ops, calls = self.timeline.ops, self.timeline.calls
        low, high, _ = self.window
        mask = (self.call_of >= 0) & (ops.start >= low) & (ops.start < high) & (ops.kind != Op.GRAPH)
        if not mask.any():
            return None
        at = self.call_of[mask]
        start, begin, end = ops.start[mask], calls.start[at], calls.end[at]
        latency = np.maximum(start - begin, 0)
        issued = np.sort(begin)
        apart = np.diff(issued)
        apart = apart[apart > 0]  # graph nodes share their launch
        depth = np.searchsorted(issued, issued, side="left") - np.searchsorted(np.sort(start), issued, side="right")
        before = np.append(issued[0], np.maximum.accumulate(ops.end[mask])[:-1])
        length = (ops.end - ops.start)[mask & (ops.kind == Op.KERNEL)]
        return Launches(
            count=len(at),
            call_us=float(np.median(end - begin)) / 1e3,
            latency_us=float(np.median(latency)) / 1e3,
            queue_us=float(np.median(np.maximum(start - end, 0))) / 1e3,
            depth=float(np.median(np.maximum(depth, 0))),
            waits=float((begin >= before).mean()),
            short=float((length < SHORT_NS).mean()) if len(length) else 0.0,
            interval_us=float(np.median(apart)) / 1e3 if len(apart) else 0.0,
            tklqt_us=float(latency.sum()) / 1e3,
        )

    @cached_property
    def queue_full(self) -> int:
        """Time in which the launch queue was full, ns: the host is ahead of the GPU."""
        full = self.timeline.full
        return union(full.start, full.end, *self.window[:2]).length
