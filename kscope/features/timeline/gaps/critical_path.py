"""The critical path of a recording: walked back from its end, each piece of it what the next one waited for. As in
HolisticTraceAnalysis an operation waits for the one before it on its stream or, where that was over when it was issued,
for the host; the host waits, where it synchronises, for the operation that ended last. A stream that waits for an event
waits for the operation before the event's record, where the recording says which that is; where it does not, the wait
is not followed but counted. Threads that start one another are not followed. Times in ns.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.features.timeline.operations.intervals import Cover, reached
from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.model.columns import Column, blocks, column, combined, constant, different, is_constant

KINDS = ("gpu", "between", "launch", "host")
"""Operations; what passes between two of a stream; from the beginning of a launch to its operation; the host."""
NOTHING = "(between operators)"
AT_ONCE = 1 << 18  # operators that are looked at together: there may be millions


class CriticalPath(Struct, frozen=True):
    """start, end, kind (an index of KINDS): the pieces, in order, without gaps. thread: of the host's, else -1. first,
    last: of the operations of a piece, by their places in `order`, else -1. order: operations by stream and start.
    events: how often the path goes from a stream to the one that it waited for. unknown: waits of streams for events of
    which the recording does not say where they were recorded."""

    start: Column
    end: Column
    kind: Column
    thread: Column
    first: Column
    last: Column
    order: Column
    events: int = 0
    unknown: int = 0

    def time(self, kind: str) -> int:
        mine = self.kind == KINDS.index(kind)
        return int((self.end - self.start)[mine].sum())


class Held(Struct, frozen=True):
    """What events between streams hold up. op: the first operation behind each wait; on: the operation that it is for.
    unknown: waits in the window of which the recording does not say what they are for."""

    op: Column
    on: Column
    unknown: int = 0


class _Streams:
    """Operations by stream. chained: those that the stream had waiting when the one before ended. held: the place of
    the operation of another stream that each began after, -1 where it waited for no event or that was over before."""

    def __init__(self, facts: TimelineFacts, held: Held | None) -> None:
        ops, calls, call = facts.timeline.ops, facts.timeline.calls, facts.call_of
        key = combined(ops.device, ops.process, ops.stream)
        if is_constant(key) and bool((ops.start[1:] > ops.start[:-1]).all()):  # one stream, in order but for ties
            self.order, self.start, self.end, of = np.arange(len(key)), ops.start, ops.end, call
        else:
            self.order = np.lexsort((ops.end, ops.start, key))
            self.start, self.end, of = ops.start[self.order], ops.end[self.order], call[self.order]
        self.call = of
        self.issue = np.where(of >= 0, calls.start[of] if len(calls) else 0, np.iinfo(np.int64).min)
        same = np.append(False, key[self.order][1:] == key[self.order][:-1])
        before = np.append(np.int64(0), self.end[:-1])
        ready = np.maximum(np.where(same, before, np.iinfo(np.int64).min), self.issue)
        self.held = self._held(held, ready) if held is not None else constant(-1, len(of))
        self.chained = same & (before >= self.issue) & (self.held < 0)
        places = np.arange(len(of))
        self.head = np.maximum.accumulate(np.where(self.chained, 0, places))  # of each, the first of its chain
        self.busy = np.append(0, np.cumsum(self.end - self.start))  # operations' time before each place
        in_turn = reached(self.end) is self.end
        self.by_end = places if in_turn else np.argsort(self.end, kind="stable")
        self.ends = self.end if in_turn else self.end[self.by_end]

    def _held(self, held: Held, ready: Column) -> Column:
        """Of the events that an operation waited for, that of the operation which ended last counts, if it ended when
        the operation could have begun otherwise (`ready`), and before it did."""
        place = np.empty(len(self.order), dtype=np.int64)
        place[self.order] = np.arange(len(self.order))
        op, on = place[held.op], place[held.on]
        binds = (self.end[on] > ready[op]) & (self.end[on] <= self.start[op])
        op, on = op[binds], on[binds]
        late = np.argsort(self.end[on], kind="stable")
        out = np.full(len(self.order), -1, dtype=np.int64)
        out[op[late]] = on[late]  # the last one stays
        return out


def critical_path(
    facts: TimelineFacts, blocking: NDArray[np.bool_], held: Held | None = None
) -> CriticalPath | None:
    """blocking: the API calls that wait for the GPU. None without operations."""
    timeline, (low, _, _) = facts.timeline, facts.window
    calls = timeline.calls
    if not len(timeline.ops):
        return None
    streams = _Streams(facts, held)
    waits = np.flatnonzero(blocking) if len(calls) else column([])
    awaited = np.searchsorted(streams.ends, calls.end[waits], side="right") - 1  # the last before a wait is over
    real = (awaited >= 0) & (streams.ends[np.maximum(awaited, 0)] > calls.start[waits])
    waits, awaited = waits[real], awaited[real]
    order = np.argsort(calls.end[waits], kind="stable")
    waits, awaited = waits[order], awaited[order]
    over = calls.end[waits]

    rows: list[tuple[int, int, int, int, int, int]] = []
    place = int(streams.by_end[-1])
    t = int(streams.end[place])
    if len(calls) and int(calls.end.max()) > t:
        last = int(calls.end.argmax())
        t, place = int(calls.end[last]), -1
        thread = int(calls.thread[last])
    events = 0
    for _ in range(2 * (len(timeline.ops) + len(over)) + 2):  # what is damaged must not go round for ever
        if t <= low:
            break
        if place >= 0:  # a chain of operations, then its launch
            head = int(streams.head[place])
            begin, call = int(streams.start[head]), int(streams.call[head])
            rows.append((max(begin, low), t, 0, -1, head, place))
            t = begin
            if (before := int(streams.held[head])) >= 0 and t > low:  # the stream waited for another
                rows.append((max(int(streams.end[before]), low), t, 1, -1, -1, -1))
                t, place, events = int(streams.end[before]), before, events + 1
                continue
            if call < 0 or t <= low:
                break
            issued = min(int(calls.start[call]), t)
            rows.append((max(issued, low), t, 2, -1, -1, -1))
            t, thread, place = issued, int(calls.thread[call]), -1
            continue
        at = int(np.searchsorted(over, t, side="right")) - 1
        found = int(streams.by_end[awaited[at]]) if at >= 0 else -1
        until = min(int(streams.end[found]), t) if at >= 0 else low
        rows.append((max(until, low), t, 3, thread, -1, -1))
        if at < 0:
            break
        t, place = until, found
    return _path(rows, streams, events, held.unknown if held is not None else 0)


def _path(
    rows: list[tuple[int, int, int, int, int, int]], streams: _Streams, events: int, unknown: int
) -> CriticalPath:
    """The pieces in order; of a chain what passes between its operations becomes a piece of its own, in one, with what
    passes until an operation of another stream begins that waited for it."""
    parts: list[tuple[int, int, int, int, int, int]] = []
    for start, end, kind, thread, first, last in reversed(rows):
        if kind == 1 and parts and parts[-1][2] == 1:
            parts[-1] = (parts[-1][0], end, *parts[-1][2:])
            continue
        if kind:
            parts.append((start, end, kind, thread, first, last))
            continue
        busy = min(int(streams.busy[last + 1] - streams.busy[first]), end - start)
        parts.append((start, start + busy, 0, thread, first, last))
        parts.append((start + busy, end, 1, thread, first, last))
    kept = [part for part in parts if part[1] > part[0]]
    c = [column([part[i] for part in kept]) for i in range(6)]
    return CriticalPath(c[0], c[1], c[2], c[3], c[4], c[5], streams.order, events, unknown)


def kernels(facts: TimelineFacts, path: CriticalPath) -> list[tuple[str, int]]:
    """Operations on the path by name with their time, most first."""
    mine = path.kind == 0
    hits = np.zeros(len(path.order) + 1, dtype=np.int64)
    np.add.at(hits, path.first[mine], 1)
    np.add.at(hits, path.last[mine] + 1, -1)
    ops = facts.timeline.ops
    rows = path.order[np.cumsum(hits[:-1]) > 0]
    time = np.bincount(ops.name[rows], weights=(ops.end - ops.start)[rows], minlength=len(facts.timeline.names))
    return [(facts.timeline.names[i], int(time[i])) for i in np.argsort(-time, kind="stable").tolist() if time[i] > 0]


def on_host(facts: TimelineFacts, path: CriticalPath) -> list[tuple[str, int]]:
    """The outermost operators and ranges that the host was in, on the path, with their time, most first."""
    names, spans = facts.timeline.names, facts.timeline.operators
    mine = path.kind == KINDS.index("host")
    time = np.zeros(len(names) + 1)
    for thread in different(path.thread[mine]).tolist():
        here = mine & (path.thread == thread)
        start, end = path.start[here], path.end[here]
        time[-1] += (end - start).sum()
        open_ = np.iinfo(np.int64).min  # until when an operator before is open
        on_path = Cover(start, end)
        alone = is_constant(spans.thread) and spans.thread[0] == thread  # no copies of millions of rows
        for rows in blocks(len(spans), AT_ONCE):
            own = slice(None) if alone else spans.thread[rows] == thread
            begin, until, name = (column_[rows][own] for column_ in (spans.start, spans.end, spans.name))
            if not len(begin):
                continue
            reach = reached(until)
            outer = begin >= np.append(open_, np.maximum(reach[:-1], open_))
            open_ = max(open_, int(reach[-1]))
            if not outer.all():
                begin, until, name = begin[outer], until[outer], name[outer]
            inside = on_path.within(begin, until)
            some = np.flatnonzero(inside)
            time[: len(names)] += np.bincount(name[some], weights=inside[some], minlength=len(names))
    time[-1] -= time[:-1].sum()
    found = [(i, int(time[i])) for i in np.argsort(-time, kind="stable").tolist() if time[i] > 0]
    return [(names[i] if i < len(names) else NOTHING, ns) for i, ns in found]
