"""Why a GPU was idle: each gap between its operations to one cause, judged by what the thread did that issued the
operation at the gap's end. Times in ns.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.features.intervals import Cover, gaps, union
from kscope.features.timeline import TimelineFacts
from kscope.features.timeline_compile import COMPILING
from kscope.features.timeline_steps import NUMBER
from kscope.model.timeline import Column, Op, column, distinct

LAUNCH, GRAPH, SYNC, COPY, HOST, DATA, ALLOC, LOADING, QUEUED, UNKNOWN, LOST, INSIDE, PROFILER = CAUSES = (
    "launch", "graph_launch", "synchronization", "blocking_copy", "host", "data_loading", "allocation", "code_loading",
    "queued", "unknown", "graph_not_recorded", "inside_graph", "profiler",
)  # fmt: skip
NOT_IDLE = (INSIDE, PROFILER, LOST)
"""Causes that are no idle time of the program: between the nodes of one graph launch, in the profiler itself, and
where a graph ran whose kernels were not recorded. "queued" is the device's own: the operation had arrived before the
gap began (its call was over, and a launch's flight behind it), and waited for its turn, another stream or device."""

_SYNC_CALL = r"Synchronize(_ptsz|_ptds)?(_v\d+)?$"
_COPY_CALL = r"^cu(da)?Memcpy"
_ALLOC_CALL = (
    r"^cu(da)?(Malloc|Free|Mem(Alloc|Free|Create|Map|Unmap|HostAlloc)|Host(Alloc|Register|Unregister))(?!.*Async)"
)
_DATA = r"(?i)data_?loader|dataset|next_batch|load_batch|fetch_batch|collate"
_STRETCH_NS, _STRETCH_MOST_NS = 100_000, 1_000_000
_STRETCH_LAUNCHES = 10  # a host stretch this many times as long as the usual launch interval is no launching
_LOADING_NS = 1_000_000  # a launch call that takes this long while the GPU is idle loads or compiles code
_PLACES = 4000  # gaps that are searched for what the host was doing


class Gaps(Struct, frozen=True):
    """Gaps of all devices; `cause` indexes CAUSES. own: the part that is the profiler's. thread: of the host, or -1.
    op: the operation that ends the gap, -1 at the end of the window; last: the one before it."""

    start: Column
    end: Column
    own: Column
    cause: Column
    thread: Column
    device: Column
    op: Column
    last: Column

    def time(self, cause: str) -> int:
        """Idle time of a cause, ns, summed over devices."""
        if cause == PROFILER:
            return int(self.own.sum())
        mask = self.cause == CAUSES.index(cause)
        return int((self.end - self.start - self.own)[mask].sum())

    def count(self, cause: str) -> int:
        return int((self.cause == CAUSES.index(cause)).sum())


class Causes:
    """The gaps of a timeline inside its window, with their causes and shares of the window."""

    def __init__(self, facts: TimelineFacts) -> None:
        self.facts = facts

    @cached_property
    def gaps(self) -> Gaps:
        parts = [self._device(d) for d in self.facts.devices]
        if not parts:
            none = column([])
            return Gaps(*(none,) * len(Gaps.__struct_fields__))
        return Gaps(*(np.concatenate([getattr(p, f) for p in parts]) for f in Gaps.__struct_fields__))

    @cached_property
    def whole(self) -> int:
        """The window of all devices without what is the profiler's, ns: what shares are of."""
        return max(self.facts.span * max(len(self.facts.devices), 1) - self.gaps.time(PROFILER), 1)

    @cached_property
    def starved(self) -> NDArray[np.bool_]:
        """Operations after which their device waits for a launch: were they shorter, it would wait longer."""
        found = self.gaps
        late = (found.cause == CAUSES.index(LAUNCH)) | (found.cause == CAUSES.index(GRAPH))
        out = np.zeros(len(self.facts.timeline.ops), dtype=bool)
        out[found.last[late]] = True
        return out

    def share(self, *causes: str) -> float:
        """Share of the window (without the profiler's part) that is idle for these causes."""
        return sum(self.gaps.time(c) for c in causes) / self.whole

    @cached_property
    def work(self) -> float:
        """Share of the window in which kernels ran, the inside of graphs included."""
        facts = self.facts
        busy = facts.work_share * facts.span * max(len(facts.devices), 1)
        return min((busy + self.gaps.time(INSIDE)) / self.whole, 1.0)

    @cached_property
    def copying(self) -> float:
        """Share of the window in which only copies ran."""
        facts = self.facts
        only = (facts.busy_share - facts.work_share) * facts.span * max(len(facts.devices), 1)
        return only / self.whole

    @cached_property
    def calls(self) -> dict[str, NDArray[np.bool_]]:
        """Masks over the API calls: sync, copy, alloc, graph."""
        name = self.facts.timeline.calls.name
        patterns = {"sync": _SYNC_CALL, "copy": _COPY_CALL, "alloc": _ALLOC_CALL, "graph": r"GraphLaunch"}
        return {what: self.facts.named(pattern)[name] for what, pattern in patterns.items()}

    def _cover(self, what: str, thread: int) -> Cover:
        calls = self.facts.timeline.calls
        mask = calls.thread == thread
        if what != "any":
            mask &= self.calls[what]
        return union(calls.start[mask], calls.end[mask])

    def _device(self, device: int) -> Gaps:
        facts = self.facts
        timeline, (low, high, _) = facts.timeline, facts.window
        ops = timeline.ops
        start, end = gaps(facts.cover(device), low, high)
        mine = np.flatnonzero(ops.device == device)
        after = np.searchsorted(ops.start[mine], end, side="left")
        exists = after < len(mine)
        following = mine[np.minimum(after, len(mine) - 1)]
        reach = np.maximum.accumulate(ops.end[mine])
        last = mine[np.minimum(np.searchsorted(reach, start, side="left"), len(mine) - 1)]
        call = np.where(exists, facts.call_of[following], -1)
        host = np.where(call >= 0, call, facts.call_of[last])  # after the last operation: the thread that issued it
        thread = np.where(host >= 0, timeline.calls.thread[host] if len(timeline.calls) else -1, -1)
        own = union(timeline.overhead.start, timeline.overhead.end).within(start, end)
        cause = self._causes(start, end, call, thread, exists, ops.kind[following] == Op.MEMCPY)
        same = exists & (ops.correlation[following] == ops.correlation[last]) & (ops.correlation[following] > 0)
        same &= ops.process[following] == ops.process[last]
        graph = (ops.graph[following] != 0) | (call >= 0) & self.calls["graph"][call] if len(timeline.calls) else same
        cause[same & graph] = CAUSES.index(INSIDE)
        cause[self._blind(start, end)] = CAUSES.index(LOST)
        self._name_data(start, end, thread, cause)
        return Gaps(start, end, np.minimum(own, end - start), cause, thread, np.full_like(start, device),
                    np.where(exists, following, -1), last)  # fmt: skip

    def _causes(
        self, start: Column, end: Column, call: Column, thread: Column, exists: NDArray[np.bool_],
        copies: NDArray[np.bool_],
    ) -> Column:  # fmt: skip
        """Time of each gap by what the thread did, and the cause with the most of it."""
        facts, calls = self.facts, self.facts.timeline.calls
        cause = np.full(len(start), CAUSES.index(UNKNOWN), dtype=np.int64)
        interval = facts.launches.interval_us * 1e3 if facts.launches else 0.0
        stretch = min(max(_STRETCH_NS, _STRETCH_LAUNCHES * interval), _STRETCH_MOST_NS)
        for one in distinct(thread[thread >= 0])[0].tolist():
            rows = np.flatnonzero((thread == one) & ((call >= 0) | ~exists))
            s, e = start[rows], end[rows]
            issue = np.where(call[rows] >= 0, np.clip(calls.start[call[rows]], s, e), e)
            launching = e - issue
            graph = (call[rows] >= 0) & self.calls["graph"][call[rows]]
            in_sync, in_alloc, in_copy, in_any = (
                self._cover(what, one).within(s, issue) for what in ("sync", "alloc", "copy", "any")
            )
            between = issue - s - in_any
            # the host waited for the GPU when it ran dry: whatever follows restarts an empty queue
            drained = self._cover("sync", one).at(s) >= 0
            is_copy = copies[rows]
            long = between >= stretch
            launch = launching * ~is_copy + (in_any - in_sync - in_alloc - in_copy) + between * ~long
            table = np.stack([
                np.where(graph, 0, launch), np.where(graph, launch, 0),
                in_sync + np.where(drained & ~long, launch + launching * is_copy, 0),
                in_copy + launching * is_copy, np.where(long, between, 0), np.zeros_like(between), in_alloc,
            ])  # fmt: skip  # in the order of CAUSES
            cause[rows] = np.argmax(table, axis=0)
            cause[rows[drained & ~long]] = CAUSES.index(SYNC)
            loading = (launching >= _LOADING_NS) & (2 * launching >= e - s) & ~is_copy & ~graph
            cause[rows[loading]] = CAUSES.index(LOADING)
            arrives = np.clip(calls.start[call[rows]] + facts.flight, s, e)
            done = (call[rows] >= 0) & (calls.end[call[rows]] <= s) & (2 * (arrives - s) < e - s)
            cause[rows[done]] = CAUSES.index(QUEUED)
        return cause

    def _blind(self, start: Column, end: Column) -> NDArray[np.bool_]:
        """Gaps in which a graph may have run unrecorded: from its launch to the next synchronisation."""
        calls, lost = self.facts.timeline.calls, self.facts.lost_graphs
        if not len(lost):
            return np.zeros(len(start), dtype=bool)
        syncs = np.sort(calls.end[self.calls["sync"]])
        until = np.append(syncs, np.iinfo(np.int64).max)[np.searchsorted(syncs, calls.end[lost])]
        blind = union(calls.start[lost], until)
        return blind.within(start, end) > 0

    def _name_data(self, start: Column, end: Column, thread: Column, cause: Column) -> None:
        """Host time under a range of a data loader is data loading; under torch.compile at work, compiling code."""
        timeline = self.facts.timeline
        for pattern, meant in ((_DATA, DATA), (COMPILING, LOADING)):
            named = self.facts.named(pattern)
            for spans in (timeline.ranges, timeline.operators):
                mask = named[spans.name]
                for one in np.unique(spans.thread[mask]).tolist():
                    mine = mask & (spans.thread == one)
                    inside = union(spans.start[mine], spans.end[mine]).within(start, end)
                    hit = (cause == CAUSES.index(HOST)) & (thread == one) & (inside * 2 >= end - start)
                    cause[hit] = CAUSES.index(meant)

    def _stem(self, name: str) -> str:
        """The steps' common name for one of them, so that their times add up."""
        steps = self.facts.steps
        stem = NUMBER.sub("#", name)
        return stem if steps is not None and stem == steps.name else name

    def places(self, *causes: str) -> list[tuple[str, int]]:
        """What the host was in during the gaps of these causes (innermost range or operator), most time first, ns."""
        timeline, found = self.facts.timeline, self.gaps
        length = found.end - found.start - found.own
        rows = np.flatnonzero(np.isin(found.cause, [CAUSES.index(c) for c in causes]) & (found.thread >= 0))
        rows = rows[np.argsort(-length[rows], kind="stable")][:_PLACES]
        time: Counter[str] = Counter()
        for one in np.unique(found.thread[rows]).tolist():
            mine = rows[found.thread[rows] == one]
            # judged a little before the next operation is issued: there the host still does what it is late with
            middle = (found.start[mine] + found.end[mine]) // 2
            name = np.full(len(mine), -1, dtype=np.int64)
            for spans in (timeline.operators, timeline.ranges):
                mask = spans.thread == one
                inner = _innermost(spans.start[mask], spans.end[mask], middle)
                hit = (name < 0) & (inner >= 0)
                name[hit] = spans.name[mask][inner[hit]]
            for at, row in zip(name.tolist(), mine.tolist(), strict=True):
                if at >= 0:
                    time[self._stem(timeline.names[at])] += int(length[row])
        return time.most_common()


def _innermost(start: Column, end: Column, t: Column) -> Column:
    """Index of the latest of nested intervals that holds each time, -1 where none does."""
    out = np.full(len(t), -1, dtype=np.int64)
    at = np.searchsorted(start, t, side="right") - 1
    for _ in range(256):  # outwards: siblings that ended before are passed over
        open_ = np.flatnonzero((out < 0) & (at >= 0))
        if not len(open_):
            break
        hit = end[at[open_]] >= t[open_]
        out[open_[hit]] = at[open_[hit]]
        at[open_[~hit]] -= 1
    return out
