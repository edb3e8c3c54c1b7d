"""Why a GPU was idle: each gap between its operations to one cause, judged by what the thread did that issued the
operation at the gap's end. Times in ns.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kscope.features.timeline.gaps.gap_table import (
    CAUSES,
    DATA,
    GRAPH,
    HOST,
    INSIDE,
    LAUNCH,
    LOADING,
    LOST,
    NOT_IDLE,
    PROFILER,
    QUEUED,
    SYNC,
    UNKNOWN,
    Gaps,
)
from kscope.features.timeline.gaps.host_places import HostPlaces
from kscope.features.timeline.operations.intervals import Cover, gaps, places, reached, union
from kscope.features.timeline.operations.launches import Mask, TimelineFacts
from kscope.features.timeline.operations.steady import once
from kscope.features.timeline.operations.torch_compile import COMPILING, find_compiled
from kscope.model.columns import Column, blocks, column, combined, constant, different, is_constant
from kscope.model.timeline import Op

_SYNC_CALL = r"Synchronize(_ptsz|_ptds)?(_v\d+)?$"
_COPY_CALL = r"^cu(da)?Memcpy"
_ALLOC_CALL = (
    r"^cu(da)?(Malloc|Free|Mem(Alloc|Free|Create|Map|Unmap|HostAlloc)|Host(Alloc|Register|Unregister))(?!.*Async)"
)
_POOL_CALL = r"^cu(da)?(Malloc|Free|MemAlloc|MemFree|MallocFromPool).*Async|^cu(da)?MemPool"
_DATA = r"(?i)data_?loader|dataset|next_batch|load_batch|fetch_batch|collate"
_STRETCH_NS, _STRETCH_MOST_NS = 100_000, 1_000_000
_STRETCH_LAUNCHES = 10  # a host stretch this many times as long as the usual launch interval is no launching
_LOADING_NS = 1_000_000  # a launch call that itself takes this long loads or compiles code
_LOADS = 10  # so does a function's first launch that takes this many times as long as the usual one (judged)
_SLOW_NS = 100_000  # a call that is no launch and takes this long is none of launching
_LOAD_CALL = (
    r"^cu(da)?(Module|Library|Link|Kernel(Get|Set)|Func(Get|Set|Load)|OccupancyMax|GraphInstantiate|GraphExec|Jit|GetFuncBy)"
)
_START_CALL = (
    r"^cu(da)?(Init|Ctx|SetDevice|Device|GetDevice|Stream(Create|Destroy|GetCapture|BeginCapture|EndCapture)|Event(Create"
    r"|Destroy)|MemPool|Ipc|GetExportTable|GetProcAddress|GetDriverEntryPoint|ProfilerSt|Graph(Create|Destroy))"
)


class Causes:
    """The gaps of a timeline inside its window, with their causes and shares of the window."""

    def __init__(self, facts: TimelineFacts) -> None:
        self.facts = facts

    @cached_property
    def gaps(self) -> Gaps:
        parts = [self._device(d) for d in self.facts.devices]
        if not parts:
            none = column([])
            return Gaps(none, none, none, none, none, none, none, none, np.zeros(0, dtype=bool))
        if len(parts) == 1:
            return parts[0]
        return Gaps(*(np.concatenate([getattr(p, f) for p in parts]) for f in Gaps.__struct_fields__))

    @cached_property
    def _first(self) -> Mask:
        """Whether each operation is the first of its name on its device."""
        ops = self.facts.timeline.ops
        out = np.zeros(len(ops), dtype=bool)
        alike = combined(ops.name, ops.device)
        first = np.zeros(int(alike.max(initial=-1)) + 1, dtype=np.int64)
        for rows in reversed(list(blocks(len(alike)))):
            first[alike[rows][::-1]] = np.arange(rows.stop - 1, rows.start - 1, -1)  # the last one entered stays
        out[first] = True
        return out

    @cached_property
    def whole(self) -> int:
        """The window of all devices without what is the profiler's and what happened once, ns: what shares are of."""
        left_out = self.gaps.time(PROFILER) + self.gaps.once_time
        return max(self.facts.span * max(len(self.facts.devices), 1) - left_out, 1)

    @cached_property
    def starved(self) -> NDArray[np.bool_]:
        """Operations after which their device waits for a launch: were they shorter, it would wait longer."""
        found = self.gaps
        late = ((found.cause == CAUSES.index(LAUNCH)) | (found.cause == CAUSES.index(GRAPH))) & ~found.once
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
        """Masks over the API calls: sync, copy, alloc, graph; of those that are slow: load (code), start (contexts,
        streams, pools and what else is made once)."""
        name = self.facts.timeline.calls.name
        patterns = {"sync": _SYNC_CALL, "copy": _COPY_CALL, "alloc": _ALLOC_CALL, "graph": r"GraphLaunch"}
        out = {what: self.facts.named(pattern)[name] for what, pattern in patterns.items()}
        calls = self.facts.timeline.calls
        slow = calls.end - calls.start >= _SLOW_NS
        out["alloc"] |= slow & self.facts.named(_POOL_CALL)[name]
        out["load"] = slow & self.facts.named(_LOAD_CALL)[name] & ~out["sync"]
        out["start"] = slow & self.facts.named(_START_CALL)[name] & ~(out["sync"] | out["alloc"])
        return out

    def _cover(self, what: str, thread: int) -> Cover:
        """When a thread was in API calls of a class, or in any."""
        if (what, thread) not in self._covers:
            calls = self.facts.timeline.calls
            mask = None if is_constant(calls.thread) else calls.thread == thread
            if what != "any":
                mask = self.calls[what] if mask is None else mask & self.calls[what]
            start, end = (calls.start, calls.end) if mask is None else (calls.start[mask], calls.end[mask])
            self._covers[what, thread] = union(start, end)
        return self._covers[what, thread]

    @cached_property
    def _recompiling(self) -> Cover:
        """When torch.compile compiled again what it had compiled: each time for another reason, so it recurs."""
        found = find_compiled(self.facts)
        again = found.recompilations if found is not None else []
        return union(column([c.start for c in again]), column([c.end for c in again]))

    @cached_property
    def _covers(self) -> dict[tuple[str, int], Cover]:
        return {}

    def _device(self, device: int) -> Gaps:
        """The gaps of one device, block by block: what is computed for them on the way would take many times the
        memory of the gaps."""
        facts = self.facts
        timeline, (low, high, _) = facts.timeline, facts.window
        start, end = gaps(facts.cover(device), low, high)
        mine = None if is_constant(timeline.ops.device) else np.flatnonzero(timeline.ops.device == device)
        begins, ends = (c if mine is None else c[mine] for c in (timeline.ops.start, timeline.ops.end))
        reach = reached(ends)
        profiler = union(timeline.overhead.start, timeline.overhead.end)
        cause = np.empty(len(start), dtype=np.int8)
        thread, op, last = (np.empty(len(start), dtype=np.int32) for _ in range(3))
        own = np.zeros(len(start), dtype=np.int64)  # hardly touched
        for rows in blocks(len(start)):
            s, e = start[rows], end[rows]
            after = places(begins, e)
            exists = after < len(begins)
            following, before = np.minimum(after, len(begins) - 1), np.minimum(places(reach, s), len(begins) - 1)
            if mine is not None:
                following, before = mine[following], mine[before]
            call = np.where(exists, facts.call_of[following], -1)
            # after the last operation: the thread that issued it
            host = np.where(call >= 0, call, facts.call_of[before])
            thread[rows] = np.where(host >= 0, timeline.calls.thread[host] if len(timeline.calls) else -1, -1)
            if (spent := profiler.within(s, e)).any():
                own[rows] = np.minimum(spent, e - s)
            cause[rows] = self._block(s, e, call, thread[rows], exists, following, before)
            op[rows], last[rows] = np.where(exists, following, -1), before
        cause[self._blind(start, end)] = CAUSES.index(LOST)
        self._name_data(start, end, thread, cause)
        where = constant(device, len(start))
        asked = ~np.isin(cause, [CAUSES.index(c) for c in NOT_IDLE]) & (self._recompiling.within(start, end) == 0)
        single = once(end - start - own, start, cause, where, asked, facts.steps, facts.span)
        single |= (cause == CAUSES.index(LOADING)) & (op >= 0) & self._first[op]  # a function's code is loaded once
        return Gaps(start, end, own, cause, thread, where, op, last, single)

    def _block(
        self, start: Column, end: Column, call: Column, thread: Column, exists: Mask, following: Column, last: Column
    ) -> Column:
        """Causes of some gaps, by the operations around them."""
        ops = self.facts.timeline.ops
        copies, first = ops.kind[following] == Op.MEMCPY, self._first[following]
        cause = self._causes(start, end, call, thread, exists, copies, first)
        same = exists & (ops.correlation[following] == ops.correlation[last]) & (ops.correlation[following] > 0)
        same &= ops.process[following] == ops.process[last]
        if same.any():
            graph = same
            if len(self.facts.timeline.calls):
                graph = (ops.graph[following] != 0) | (call >= 0) & self.calls["graph"][call]
            cause[same & graph] = CAUSES.index(INSIDE)
        return cause

    def _causes(
        self, start: Column, end: Column, call: Column, thread: Column, exists: Mask, copies: Mask, first: Mask
    ) -> Column:
        """Time of each gap by what the thread did, and the cause with the most of it. first: those before the first
        operation of its name."""
        facts, calls = self.facts, self.facts.timeline.calls
        cause = np.full(len(start), CAUSES.index(UNKNOWN), dtype=np.int64)
        interval = facts.launches.interval_us * 1e3 if facts.launches else 0.0
        usual = facts.launches.call_us * 1e3 if facts.launches else np.inf
        stretch = min(max(_STRETCH_NS, _STRETCH_LAUNCHES * interval), _STRETCH_MOST_NS)
        for one in different(thread[thread >= 0]).tolist():
            rows = np.flatnonzero((thread == one) & ((call >= 0) | ~exists))
            s, e, its = start[rows], end[rows], call[rows]
            issue = np.where(its >= 0, np.clip(calls.start[its], s, e), e)
            # its call and its flight: what comes on top the operation waits for, issued
            over = np.where(its >= 0, np.clip(calls.end[its] + facts.flight, issue, e), e)
            launching, queued = over - issue, e - over
            graph = (its >= 0) & self.calls["graph"][its]
            in_sync, in_alloc, in_copy, in_load, in_start, in_any = (
                self._cover(what, one).within(s, issue)
                for what in ("sync", "alloc", "copy", "load", "start", "any")
            )
            between = issue - s - in_any
            # the host waited for the GPU when it ran dry: whatever follows restarts an empty queue
            drained = self._cover("sync", one).holds(s)
            is_copy = copies[rows]
            long = between >= stretch
            other = np.maximum(in_any - in_sync - in_alloc - in_copy - in_load - in_start, 0)
            launch = launching * ~is_copy + other + between * ~long
            table = (  # in the order of CAUSES
                np.where(graph, 0, launch), np.where(graph, launch, 0),
                in_sync + np.where(drained & ~long, launch + launching * is_copy, 0),
                in_copy + launching * is_copy, np.where(long, between, 0), None, in_alloc, in_load, in_start, queued,
            )  # fmt: skip
            most, main = table[0].copy(), np.zeros(len(rows), dtype=np.int64)
            for number, time in enumerate(table):
                if time is not None:
                    main[time > most] = number
                    np.maximum(most, time, out=most)
            cause[rows] = main
            made = np.maximum(np.maximum(in_alloc, in_load), np.maximum(in_start, queued))
            cause[rows[drained & ~long & (2 * made < e - s)]] = CAUSES.index(SYNC)
            own = np.where(its >= 0, np.clip(calls.end[its], s, e) - issue, 0)
            slow = (own >= _LOADING_NS) | first[rows] & (own >= _LOADS * usual)
            loading = slow & (2 * own >= e - s) & ~is_copy & ~graph
            cause[rows[loading]] = CAUSES.index(LOADING)
            arrives = np.clip(calls.start[its] + facts.flight, s, e)
            done = (its >= 0) & (calls.end[its] <= s) & (2 * (arrives - s) < e - s)
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
            if not named.any():
                continue
            for spans in (timeline.ranges, timeline.operators):
                mask = named[spans.name]
                for one in different(spans.thread[mask]).tolist():
                    mine = mask & (spans.thread == one)
                    inside = union(spans.start[mine], spans.end[mine]).within(start, end)
                    hit = (cause == CAUSES.index(HOST)) & (thread == one) & (inside * 2 >= end - start)
                    cause[hit] = CAUSES.index(meant)

    @cached_property
    def _host(self) -> HostPlaces:
        return HostPlaces(self.facts)

    def places(self, cause: str) -> list[tuple[str, int]]:
        """What the host was in during the gaps of a cause (innermost range or operator), most time first, ns."""
        found = self.gaps
        if cause not in self._places:
            mine = (found.cause == CAUSES.index(cause)) & (found.thread >= 0) & ~found.once
            self._places[cause] = self.places_of(np.flatnonzero(mine))
        return self._places[cause]

    def places_of(self, rows: Column) -> list[tuple[str, int]]:
        """The same of these gaps."""
        return self._host.during(self.gaps, rows)

    @cached_property
    def _places(self) -> dict[str, list[tuple[str, int]]]:
        return {}
