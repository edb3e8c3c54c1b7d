"""Whom waits are for: the operation that a synchronising call of the host returned after, and the operation of another
stream or device that a stream was held up by. Times in ns.

By what the recording says of the call (Kineto's `cuda_sync`, CUPTI's synchronisation and event records): the last
operation that was issued on that stream before the call, or before the event was recorded. Calls that wait for the
whole device need no more than their name. For the rest by time: what finished last before the wait ended, a guess.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from kscope.features.timeline.gaps.critical_path import Held
from kscope.features.timeline.gaps.gap_table import CAUSES, SYNC
from kscope.features.timeline.gaps.gaps import Causes
from kscope.features.timeline.operations.kernel_kinds import COMMUNICATION, kind_of
from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.model.columns import Column, column, different
from kscope.model.timeline import Op, Sync

SLACK_NS = 2_000
"""The end of an operation may be recorded so long after the return of the call that waited for it: the clocks of host
and GPU are matched to about a microsecond (judged)."""
_BACK = 8  # operations that are passed over, backwards in time, to find one that was issued before the call
_STREAM_WAIT = r"^cu(da)?StreamWaitEvent"
_WHOLE = r"^cu(da)?(Device|Ctx)Synchronize"

RECORDED, WHOLE, GUESS = "recorded", "device", "guess"


class Wait(Struct, frozen=True):
    """Waits of one kind for operations of one name. call: the API call, "" for a stream. stream: (device, stream) that
    waits, None for the host. on: name of the operations waited for. ns: time between the begin of the waits and the
    end of what they were for. idle: time that the GPU then had nothing to do. said_by: RECORDED, WHOLE or GUESS."""

    call: str
    stream: tuple[int, int] | None
    on: str
    count: int
    ns: int
    idle: int
    said_by: str


class Waits:
    """The waits of a recording in its window."""

    GUESS = GUESS

    def __init__(self, facts: TimelineFacts, causes: Causes) -> None:
        self.facts = facts
        self.causes = causes

    @cached_property
    def _by_end(self) -> Column:
        return np.argsort(self.facts.timeline.ops.end, kind="stable")

    @cached_property
    def _streams(self) -> dict[tuple[int, int], Column]:
        """(device, stream) -> its operations in the order in which they were issued."""
        ops = self.facts.timeline.ops
        rows = np.lexsort((self.facts.issued, ops.stream, ops.device))
        return {(int(ops.device[one[0]]), int(ops.stream[one[0]])): one for one in _runs(rows, ops.device, ops.stream)}

    def _last_issued(self, device: int, stream: int, before: int) -> int:
        """The last operation issued on a stream before a time, -1 for none."""
        rows = self._streams.get((device, stream), column([]))
        at = int(np.searchsorted(self.facts.issued[rows], before)) - 1
        return int(rows[at]) if at >= 0 else -1

    def _last_done(self, process: Column, begin: Column, until: Column) -> Column:
        """The operation of a process that was issued before `begin` and finished last before `until`, -1 for none."""
        ops = self.facts.timeline.ops
        ends = ops.end[self._by_end]
        at = np.searchsorted(ends, until + SLACK_NS, side="right") - 1
        out = np.full(len(begin), -1, dtype=np.int64)
        for _ in range(_BACK):
            rows = np.flatnonzero((out < 0) & (at >= 0))
            if not len(rows):
                break
            op = self._by_end[at[rows]]
            hit = (self.facts.issued[op] <= begin[rows]) & (ops.process[op] == process[rows])
            out[rows[hit]] = op[hit]
            at[rows] -= 1
        return out

    @cached_property
    def _recorded(self) -> dict[tuple[int, int], int]:
        """(process, correlation) of a call -> its row in Timeline.awaited."""
        found = self.facts.timeline.awaited
        if found is None:
            return {}
        return {key: i for i, key in enumerate(zip(found.process.tolist(), found.correlation.tolist(), strict=True))}

    @cached_property
    def _call(self) -> dict[tuple[int, int], int]:
        calls = self.facts.timeline.calls
        wanted = self._wanted_records
        rows = np.flatnonzero(np.isin(calls.correlation, column(sorted(wanted)))) if wanted else column([])
        return {(int(calls.process[i]), int(calls.correlation[i])): int(i) for i in rows}

    @cached_property
    def _wanted_records(self) -> set[int]:
        found = self.facts.timeline.awaited
        return set() if found is None else {*found.record.tolist(), *found.correlation.tolist()} - {0}

    def _told(self, row: int, begin: int) -> int:
        """The operation that a recorded wait is for, -1 where the recording does not tell."""
        found = self.facts.timeline.awaited
        assert found is not None
        device, kind = int(found.device[row]), int(found.kind[row])
        if kind in (Sync.EVENT, Sync.STREAM_WAIT):
            made = self._call.get((int(found.process[row]), int(found.record[row])))
            if made is None:
                return -1
            return self._last_issued(device, int(found.of[row]), int(self.facts.timeline.calls.start[made]))
        return self._last_issued(device, int(found.stream[row]), begin) if kind == Sync.STREAM else -1

    @cached_property
    def _host(self) -> tuple[Column, Column, list[str]]:
        """(synchronising calls in the window, the operation that each is for or -1, who says so)."""
        facts = self.facts
        calls, (low, high, _) = facts.timeline.calls, facts.window
        rows = np.flatnonzero(self.causes.calls["sync"] & (calls.end > low) & (calls.start < high))
        op = self._last_done(calls.process[rows], calls.start[rows], calls.end[rows])
        whole = facts.named(_WHOLE)[calls.name[rows]] if len(rows) else np.zeros(0, dtype=bool)
        said = [WHOLE if one else GUESS for one in whole.tolist()]
        for i, row in enumerate(rows.tolist() if self._recorded else []):
            place = self._place(row)
            told = self._told(place, int(calls.start[row])) if place >= 0 else -1
            if told >= 0:
                op[i], said[i] = told, RECORDED
        return rows, op, said

    def _idle_after(self, rows: Column) -> Column:
        """Idle time of the gaps that each of these calls left behind."""
        found, calls = self.causes.gaps, self.facts.timeline.calls
        out = np.zeros(len(rows), dtype=np.int64)
        mine = np.flatnonzero((found.cause == CAUSES.index(SYNC)) & ~found.once)
        for thread in different(found.thread[mine]).tolist():
            its = np.flatnonzero(calls.thread[rows] == thread)
            gaps = mine[found.thread[mine] == thread]
            if not len(its):
                continue
            at = np.searchsorted(calls.start[rows[its]], found.end[gaps], side="right") - 1
            hit = (at >= 0) & (calls.end[rows[its[np.maximum(at, 0)]]] >= found.start[gaps])
            np.add.at(out, its[at[hit]], found.rest[gaps[hit]])
        return out

    @cached_property
    def host(self) -> list[Wait]:
        """Waits of the host, by call and by what they were for; those after which the GPU idled most first."""
        timeline = self.facts.timeline
        rows, op, said = self._host
        waited = np.where(op >= 0, np.minimum(timeline.ops.end[op], timeline.calls.end[rows]), 0) if len(rows) else rows
        waited = np.maximum(waited - timeline.calls.start[rows], 0) * (op >= 0)
        idle = self._idle_after(rows)
        sums: dict[tuple[int, int, str], list[int]] = {}
        for i in np.flatnonzero((op >= 0) & ((waited > 0) | (idle > 0))).tolist():
            key = int(timeline.calls.name[rows[i]]), int(timeline.ops.name[op[i]]), said[i]
            one = sums.setdefault(key, [0, 0, 0])
            one[0], one[1], one[2] = one[0] + 1, one[1] + int(waited[i]), one[2] + int(idle[i])
        out = [
            Wait(timeline.names[call], None, timeline.names[on], count, ns, idle_ns, said_by)
            for (call, on, said_by), (count, ns, idle_ns) in sums.items()
        ]
        return sorted(out, key=lambda w: (-w.idle, -w.ns))

    @cached_property
    def streams(self) -> list[Wait]:
        """Waits of streams for others, by the events that they wait for; of the computing streams, and those of most
        time first."""
        sums: dict[tuple[int, int, int, str], list[int]] = {}
        for call, on, said_by in self._events:
            first = self._first_after(call)
            held = self._held(first, on, guess=said_by == GUESS) if first >= 0 else None
            if held is not None:
                one = sums.setdefault((*held[:3], said_by), [0, 0])
                one[0], one[1] = one[0] + 1, one[1] + held[3]
        names = self.facts.timeline.names
        out = [
            Wait("", (device, stream), names[on], count, ns, 0, said_by)
            for (device, stream, on, said_by), (count, ns) in sums.items()
        ]
        return sorted(out, key=lambda w: (w.stream not in self.computing, -w.ns))

    @cached_property
    def computing(self) -> frozenset[tuple[int, int]]:
        """Of each device the stream with the most time in kernels that do not communicate."""
        timeline = self.facts.timeline
        ops = timeline.ops
        sends = np.array([kind_of(name).kind == COMMUNICATION for name in timeline.names] or [False])
        most: dict[int, tuple[int, int]] = {}
        for (device, stream), rows in self._streams.items():
            works = rows[(ops.kind[rows] == Op.KERNEL) & ~sends[ops.name[rows]]]
            most[device] = max(most.get(device, (0, 0)), (int((ops.end - ops.start)[works].sum()), stream))
        return frozenset((device, stream) for device, (_, stream) in most.items())

    @cached_property
    def held(self) -> Held:
        """The operations that streams wait for by events, where the recording says where these were recorded."""
        calls, found = self.facts.timeline.calls, self.facts.timeline.awaited
        inside = self.facts.timeline.ops.start >= self.facts.window[0]
        low = int(self.facts.issued.min(where=inside, initial=self.facts.window[0]))  # the host may be far ahead
        pairs: list[tuple[int, int]] = []
        unknown = 0
        for call, told, _ in self._events:
            at, place = int(calls.start[call]), self._place(call)
            if found is None or place < 0 or (int(found.process[place]), int(found.record[place])) not in self._call:
                unknown += at >= low
                continue
            first = self._first_on(int(found.device[place]), int(found.stream[place]), at)
            if told >= 0 and first >= 0:
                pairs.append((first, told))
        both = column(pairs).reshape(-1, 2)
        return Held(both[:, 0], both[:, 1], unknown)

    def _place(self, call: int) -> int:
        """Row of Timeline.awaited that is of a call, -1 for none."""
        calls = self.facts.timeline.calls
        return self._recorded.get((int(calls.process[call]), int(calls.correlation[call])), -1)

    def _first_on(self, device: int, stream: int, after: int) -> int:
        """The first operation issued on a stream after a time, -1 for none."""
        rows = self._streams.get((device, stream), column([]))
        at = int(np.searchsorted(self.facts.issued[rows], after))
        return int(rows[at]) if at < len(rows) else -1

    @cached_property
    def _events(self) -> list[tuple[int, int, str]]:
        """(call that makes a stream wait for an event, the operation that is for or -1, who says so) in the window."""
        facts = self.facts
        calls, (_, high, _) = facts.timeline.calls, facts.window
        named = facts.named(_STREAM_WAIT)
        some = len(calls) and named.any()
        rows = np.flatnonzero(named[calls.name] & (calls.start < high)) if some else column([])
        told = [(c, self._told(place, 0) if (place := self._place(c)) >= 0 else -1) for c in rows.tolist()]
        return [(call, on, GUESS if on < 0 else RECORDED) for call, on in told]

    @cached_property
    def _issued(self) -> tuple[Column, Column]:
        """(calls that launched something, in order; the first operation of each)."""
        call, first = np.unique(self.facts.call_of, return_index=True)
        return call[call >= 0], first[call >= 0]

    @cached_property
    def _issued_by(self) -> dict[int, Column]:
        """Thread -> places of its calls in `_issued`, in order."""
        thread = self.facts.timeline.calls.thread[self._issued[0]]
        return {int(thread[one[0]]): one for one in _runs(np.argsort(thread, kind="stable"), thread)}

    def _first_after(self, call: int) -> int:
        """The operation that the same thread issued next, -1 for none: it is on the stream that was made to wait."""
        launches, ops = self._issued
        mine = self._issued_by.get(int(self.facts.timeline.calls.thread[call]), column([]))
        at = int(np.searchsorted(launches[mine], call))
        return int(ops[mine[at]]) if at < len(mine) else -1

    def _held(self, next_: int, on: int, *, guess: bool) -> tuple[int, int, int, int] | None:
        """(device, stream, name of what it waits for, for how long) of the first operation after a wait; None where it
        did not have to wait, or begins outside the window. guess: what finished last on another stream, if the
        operation began right behind it."""
        ops, facts = self.facts.timeline.ops, self.facts
        low, high, _ = facts.window
        start, place = int(ops.start[next_]), (int(ops.device[next_]), int(ops.stream[next_]))
        if not low <= start < high:
            return None
        if guess:
            on = self._just_done(start, place)
        mine = self._streams[place]
        at = int(np.searchsorted(ops.start[mine], start))
        ready = int(facts.issued[next_]) + facts.flight
        ready = max(ready, int(ops.end[mine[at - 1]])) if at else ready
        until = min(start, int(ops.end[on])) if on >= 0 else ready
        return (*place, int(ops.name[on]), until - ready) if until > ready else None

    def _just_done(self, start: int, place: tuple[int, int]) -> int:
        """What finished last on another stream right before a time, -1 for nothing."""
        ops = self.facts.timeline.ops
        at = int(np.searchsorted(ops.end[self._by_end], start + SLACK_NS, side="right")) - 1
        for op in self._by_end[max(at - _BACK, 0) : at + 1][::-1].tolist():
            if (int(ops.device[op]), int(ops.stream[op])) != place:
                return op if start - int(ops.end[op]) <= self.facts.flight + SLACK_NS else -1
        return -1


def _runs(rows: Column, *keys: Column) -> list[Column]:
    """Rows that are sorted by these keys, in pieces of equal keys. There may be as many streams as operations: a mask
    for each would take time that grows with the square."""
    if not len(rows):
        return []
    changes = np.zeros(len(rows) - 1, dtype=bool)
    for key in keys:
        changes |= np.diff(key[rows]) != 0
    return np.split(rows, np.flatnonzero(changes) + 1)
