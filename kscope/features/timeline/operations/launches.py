"""What several timeline rules need of one Timeline, computed once, on first use. Times in ns.

Definitions: idle share = 1 - |union of GPU operations| / window; launch latency = start of the operation - start of the
API call; queue delay = start of the operation - end of the call, floored at 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.features.timeline.operations.api_names import as_cuda
from kscope.features.timeline.operations.intervals import Cover, covered, places, union
from kscope.features.timeline.operations.medians import median
from kscope.features.timeline.operations.steps import MEASURED, WARM_UP, Steps, find_steps, join, projected
from kscope.model.columns import Column, blocks, combined, distinct
from kscope.model.quoted import quoted
from kscope.model.timeline import LATEST, Op, Timeline

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
        """Which of Timeline.names, as CUDA names calls, match: a mask to index with a name column."""
        return self.named_by(re.compile(pattern))

    @cached_property
    def _names(self) -> list[str]:
        return [as_cuda(name) for name in self.timeline.names]

    def named_by(self, found: re.Pattern[str]) -> Mask:
        """The same of a compiled expression."""
        return np.array([found.search(n) is not None for n in self._names] or [False])

    @cached_property
    def call_of(self) -> Column:
        """For each operation the index of the API call that launched it, -1 where the recording has none."""
        return join(self.timeline)

    @cached_property
    def flight(self) -> int:
        """Time from the start of a launch call to the start of its operation when nothing is in the way, ns: of this
        recording where it has such launches."""
        found = [np.zeros(0, dtype=np.int16)]
        for rows in blocks(len(self.call_of)):
            latency = self.timeline.ops.start[rows] - self.issued[rows]
            quick = (self.call_of[rows] >= 0) & (latency > 0) & (latency <= _SLOWEST_FLIGHT_NS)
            found.append(latency[quick].astype(np.int16))
        latencies = np.concatenate(found)
        return int(_SLACK * median(latencies)) if len(latencies) >= _FLIGHTS else _FLIGHT_NS

    @cached_property
    def issued(self) -> Column:
        """Start of the call that launched each operation; its own start where the recording has no call."""
        ops, calls = self.timeline.ops, self.timeline.calls
        if not len(calls):
            return ops.start
        out = np.empty(len(ops), dtype=np.int64)
        for rows in blocks(len(ops)):
            call = self.call_of[rows]
            out[rows] = np.where(call >= 0, calls.start[call], ops.start[rows])
        return out

    @cached_property
    def shapes(self) -> Column:
        """A number for each operation that tells its name, launch shape and kind; in the order of these."""
        ops = self.timeline.ops
        return combined(ops.name, *ops.grid, *ops.block, ops.kind)

    @cached_property
    def steps(self) -> Steps | None:
        found = find_steps(self.timeline, self.call_of, self.issued)
        return found and projected(found, self.timeline, self.issued, self.call_of >= 0)

    @cached_property
    def window(self) -> tuple[int, int, str]:
        """(start, end, what it is): the steps where there are some, else first to last GPU operation."""
        ops = self.timeline.ops
        if not len(ops):
            return 0, 0, "no GPU operation"
        low, high = int(ops.start[0]), int(ops.end.max())
        steps = self.steps
        if steps is None or steps.periodic:
            return self._chosen_range() or (low, high, "first to last GPU operation")
        inside = self._inside(int(steps.start[0]), int(steps.end[-1]))
        if inside is None:
            return low, high, "first to last GPU operation"
        return int(steps.begin[0]), steps.until, f"{len(steps.start)} steps, {quoted(steps.name)}"

    def _chosen_range(self) -> tuple[int, int, str] | None:
        """The window that ranges called "profile" or "measured" name, or what follows a warm-up."""
        ranges, high = self.timeline.ranges, int(self.timeline.ops.end.max())
        for pattern, word in ((MEASURED, ""), (WARM_UP, "after ")):
            named = self.named_by(pattern)[ranges.name] if len(ranges) else np.zeros(0, dtype=bool)
            if not named.any():
                continue
            begin = int(ranges.end[named].max() if word else ranges.start[named].min())
            inside = self._inside(begin, LATEST if word else int(ranges.end[named].max()))
            if inside is not None:
                name = quoted(self.timeline.names[int(ranges.name[named][-1])])
                return begin, high if word else inside[1], f"{word}{name}"
        return None

    def _inside(self, begin: int, end: int) -> tuple[int, int] | None:
        """First start and last end of the operations issued between two times; None where that is less than half of
        all that the GPU did."""
        ops = self.timeline.ops
        mine = (self.issued >= begin) & (self.issued <= end)
        inside = whole = 0
        for rows in blocks(len(ops)):
            time = ops.end[rows] - ops.start[rows]
            whole += int(time.sum())
            inside += int(time[mine[rows]].sum())
        if inside * 2 < whole or not mine.any():
            return None
        return int(ops.start[mine].min()), int(ops.end.max(where=mine, initial=begin))

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """Devices that do a share of the work worth speaking of, busiest first."""
        ops = self.timeline.ops
        found, inverse = distinct(ops.device)
        if len(found) == 1:
            return (int(found[0]),)
        time = np.bincount(inverse, weights=ops.end - ops.start, minlength=len(found))
        order = np.argsort(-time, kind="stable")
        return tuple(int(found[i]) for i in order if time[i] >= _SIDE * time.max())

    def chosen(self, device: int, *kinds: Op) -> Mask:
        """Which operations are of a device (and of these kinds)."""
        ops = self.timeline.ops
        mask: Mask = ops.device == device
        wanted = np.array([not kinds or kind in kinds for kind in Op])
        return mask if wanted.all() else mask & wanted[ops.kind]

    def cover(self, device: int, *kinds: Op) -> Cover:
        """When a device ran operations (of these kinds), clipped to the window."""
        start, end = self.of(device, *kinds)
        return union(start, end, *self.window[:2])

    def of(self, device: int, *kinds: Op) -> tuple[Column, Column]:
        """Starts and ends of the operations of a device (and of these kinds)."""
        ops, mask = self.timeline.ops, self.chosen(device, *kinds)
        return (ops.start, ops.end) if mask.all() else (ops.start[mask], ops.end[mask])

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
        ops, (low, high, _) = self.timeline.ops, self.window
        busy = sum(covered(ops.start, ops.end, low, high, self.chosen(d, *kinds)) for d in self.devices)
        return busy / (self.span * len(self.devices))

    @cached_property
    def missing_launches(self) -> float:
        """Share of the GPU operations that begin in the window without an API call: what ran before it was often issued
        before the recording began."""
        ops, (low, high, _) = self.timeline.ops, self.window
        lost = count = 0
        for rows in blocks(len(ops)):
            inside = (ops.start[rows] >= low) & (ops.start[rows] <= high)
            count += int(inside.sum())
            lost += int((inside & (self.call_of[rows] < 0)).sum())
        return lost / count if count else 0.0

    @cached_property
    def lost_graphs(self) -> Column:
        """Indices of graph launches of which no operation was recorded."""
        launches = np.flatnonzero(self.named(r"GraphLaunch")[self.timeline.calls.name])
        return np.setdiff1d(launches, self.call_of) if len(launches) else launches

    @cached_property
    def parts(self) -> list[tuple[int, int]]:
        """(process, device) of those that do a share of the work worth speaking of, most busy first."""
        ops = self.timeline.ops
        key, index = distinct(combined(ops.process, ops.device))
        if len(key) < 2:
            return [(int(ops.process[0]), int(ops.device[0]))] if len(ops) else []
        time = np.bincount(index, weights=ops.end - ops.start, minlength=len(key))
        first = np.full(len(key), len(ops), dtype=np.int64)
        np.minimum.at(first, index, np.arange(len(ops)))
        order = [i for i in np.argsort(-time, kind="stable").tolist() if time[i] >= _SIDE * time.max(initial=0)]
        return [(int(ops.process[first[i]]), int(ops.device[first[i]])) for i in order]

    @cached_property
    def launches(self) -> Launches | None:
        """Launch figures inside the window of the busiest process and device (others: `launches_of`): launches of
        several would look closer together than any of them makes them. None where nothing ties calls to operations."""
        return self.launches_of(*self.parts[0]) if len(self.parts) > 1 else self._launches(None)

    def launches_of(self, process: int, device: int) -> Launches | None:
        """The same of one process on one device."""
        ops = self.timeline.ops
        return self._launches((ops.process == process) & (ops.device == device))

    def _launches(self, only: Mask | None) -> Launches | None:
        ops, calls = self.timeline.ops, self.timeline.calls
        low, high, _ = self.window
        mask = (self.call_of >= 0) & (ops.start >= low) & (ops.start < high) & (ops.kind != Op.GRAPH)
        if only is not None:
            mask &= only
        if not mask.any():
            return None
        at, start, done, begin = self.call_of, ops.start, ops.end, self.issued
        if not mask.all():
            at, start, done, begin = at[mask], start[mask], done[mask], begin[mask]
        issued = begin if bool((begin[1:] >= begin[:-1]).all()) else np.sort(begin)
        depth, waits, short, kernels, reach, rank = np.empty(len(at), dtype=np.int32), 0, 0, 0, int(issued[0]), 0
        for rows in blocks(len(at)):
            ranks = np.arange(rows.start, rows.stop)
            ranks[1:][issued[rows][1:] == issued[rows][:-1]] = 0  # graph nodes share their launch
            ranks[0] = rank if rows.start and issued[rows.start] == issued[rows.start - 1] else rows.start
            ranks = np.maximum.accumulate(ranks)
            depth[rows] = np.maximum(ranks - places(start, issued[rows], side="right"), 0)
            before = np.maximum.accumulate(np.append(reach, done[rows]))
            waits += int((begin[rows] >= before[:-1]).sum())
            reach, rank = int(before[-1]), int(ranks[-1])
        for rows in blocks(len(ops)):
            launched = mask[rows] & (ops.kind[rows] == Op.KERNEL)
            kernels += int(launched.sum())
            short += int((launched & (ops.end[rows] - ops.start[rows] < SHORT_NS)).sum())
        room = np.empty(len(at), dtype=np.int64)  # one column for all that a median is taken of

        def each(value: Callable[[slice], Column]) -> Column:
            for rows in blocks(len(at)):
                room[rows] = value(rows)
            return room

        np.subtract(issued[1:], issued[:-1], out=room[1:])
        apart = room[1:][room[1:] > 0] if (room[1:] == 0).any() else room[1:]
        interval = median(apart) / 1e3 if len(apart) else 0.0
        latency = each(lambda rows: np.maximum(start[rows] - begin[rows], 0))
        return Launches(
            count=len(at),
            latency_us=median(latency) / 1e3,
            tklqt_us=float(latency.sum()) / 1e3,
            call_us=median(each(lambda rows: calls.end[at[rows]] - begin[rows])) / 1e3,
            queue_us=median(each(lambda rows: np.maximum(start[rows] - calls.end[at[rows]], 0))) / 1e3,
            depth=median(depth),
            waits=waits / len(at),
            short=short / kernels if kernels else 0.0,
            interval_us=interval,
        )

    @cached_property
    def queue_full(self) -> int:
        """Time in which the launch queue was full, ns: the host is ahead of the GPU."""
        full = self.timeline.full
        return union(full.start, full.end, *self.window[:2]).length
