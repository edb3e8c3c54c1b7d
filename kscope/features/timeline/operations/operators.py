"""GPU time of the framework's operators: each GPU operation belongs to the innermost operator open on its thread
when its call was issued (Kineto's `cpu_op`, emit_nvtx's ranges). Times in ns.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kscope.features.timeline.operations.intervals import places
from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.model.columns import Column, blocks, column, constant, distinct, is_constant
from kscope.model.timeline import Spans

GRAPHS, NONE = "(CUDA graph)", "(no operator)"
"""What operations belong to that no operator issued: replays of graphs, and others."""


class Nesting:
    """Intervals of one thread, sorted by start, as a call stack. rows: their places in the table they are of."""

    def __init__(self, start: Column, end: Column, rows: Column) -> None:
        if bool((start[1:] <= start[:-1]).any()):  # of those that begin together the longest is the outermost
            order = np.lexsort((-end, start))
            start, end, rows = start[order], end[order], rows[order]
        self.start, self.end, self.rows = start, end, rows
        self._ends = np.sort(end, kind="stable")
        self.depth = np.arange(len(start)) - places(self._ends, start, side="right") + self._empty_before()
        self._levels: dict[int, Column] = {}

    def _empty_before(self) -> Column:
        """Intervals of no length that begin and end at the start of a later one count as ended before they begin, but
        for themselves and those behind them."""
        empty = self.end == self.start
        if not empty.any():
            return np.zeros(len(self.start), dtype=np.int64)
        first = np.searchsorted(self.start, self.start, side="left")
        ends = np.sort(self.end[empty])
        at_start = np.searchsorted(ends, self.start, side="right") - np.searchsorted(ends, self.start, side="left")
        upto = np.append(0, np.cumsum(empty))
        passed: Column = upto[np.arange(len(self.start))] - upto[first]
        return at_start - passed

    def _level(self, depth: int) -> Column:
        if depth not in self._levels:
            self._levels[depth] = np.flatnonzero(self.depth == depth)
        return self._levels[depth]

    def innermost(self, t: Column) -> Column:
        """Row of the innermost interval that is open at each time, -1 where none is."""
        if not len(self.start):
            return np.full(len(t), -1, dtype=np.int64)
        begun = places(self.start, t, side="right")
        depth = begun - places(self._ends, t) - 1
        last = np.maximum(begun - 1, 0)
        out = np.where((depth == self.depth[last]) & (begun > 0) & (self.end[last] >= t), self.rows[last], -1)
        rest = np.flatnonzero((out < 0) & (depth >= 0))  # mostly it is the one that began last
        out[rest] = self._at(begun[rest], depth[rest], t[rest])
        return out

    def parents(self, rows: Column) -> Column:
        """Row of the interval around each of these rows (in order); -1 for the outermost."""
        at = np.searchsorted(self.start, self.start[:0])  # an empty column of places
        if len(rows):
            order = np.argsort(self.rows, kind="stable") if bool((np.diff(self.rows) < 0).any()) else slice(None)
            at = np.searchsorted(self.rows[order], rows)
            at = at if isinstance(order, slice) else order[at]
        return self._at(at, self.depth[at] - 1, self.start[at])

    def _at(self, begun: Column, depth: Column, t: Column) -> Column:
        """The last of the first `begun` intervals at a depth; outwards where that one is over (intervals that overlap
        without being nested)."""
        out = np.full(len(t), -1, dtype=np.int64)
        for level in range(int(depth.max(initial=-1)), -1, -1):
            mine = np.flatnonzero((depth >= level) & (out < 0))
            there = self._level(level)
            if not len(mine) or not len(there):
                continue
            at = np.searchsorted(there, begun[mine], side="left") - 1
            found = there[np.maximum(at, 0)]
            hit = (at >= 0) & (self.end[found] >= t[mine])
            out[mine[hit]] = self.rows[found[hit]]
        return out


def holding(spans: Spans, thread: int, t: Column) -> Column:
    """Rows of a thread's intervals during which one of the times `t` (sorted) is. Of millions of operators few launch
    anything, and those that hold none hold no interval that does."""
    found = []
    for rows in blocks(len(spans)):
        start, end = spans.start[rows], spans.end[rows]
        first, last = (int(np.searchsorted(t, edge)) for edge in (start.min(), end.max() + 1))
        near = np.append(t[first:last], np.iinfo(np.int64).max)
        before = np.bincount(np.searchsorted(start, near, side="right"), minlength=len(start))[: len(start)]
        held = near[np.cumsum(before)] <= end  # the first time at or after each start
        if not is_constant(spans.thread) or spans.thread[0] != thread:
            held &= spans.thread[rows] == thread
        found.append(np.flatnonzero(held) + rows.start)
    return np.concatenate(found)


class Operators:
    """The operators of a recording that issued something, and those around them. `active`: their rows in
    Timeline.operators, in order; other columns have a value for each of these."""

    def __init__(self, facts: TimelineFacts) -> None:
        self.facts = facts

    @cached_property
    def _nested(self) -> tuple[Column, Column, Column]:
        """(active, parent of each as a place among them or -1, the same of each call that launched something)."""
        timeline = self.facts.timeline
        spans, calls, call_of = timeline.operators, timeline.calls, self.facts.call_of
        issues = np.zeros(len(calls), dtype=bool)
        issues[call_of[call_of >= 0]] = True
        issuers = np.flatnonzero(issues)
        of_call = np.full(len(calls), -1, dtype=np.int32)
        active, around = [column([])], [column([])]
        launched: list[tuple[Column, Column, Column]] = []  # of a thread: calls, operator of each, rows of operators
        for thread in distinct(spans.thread)[0].tolist() if len(spans) else []:
            mine = issuers[calls.thread[issuers] == thread]
            if not len(mine):
                continue
            rows = holding(spans, thread, calls.start[mine])
            nesting = Nesting(spans.start[rows], spans.end[rows], np.arange(len(rows)))
            rows = np.append(rows, -1)  # the last one is what -1 means
            inner = nesting.innermost(calls.start[mine])
            launched.append((mine, inner, rows))
            fresh, known = np.zeros((2, len(rows)), dtype=bool)
            fresh[inner] = known[-1] = True
            while len(outer := np.flatnonzero(fresh & ~known)):  # as often as the stack is deep
                parents = nesting.parents(outer)
                active.append(rows[outer])
                around.append(rows[parents])
                known |= fresh
                fresh[:] = False
                fresh[parents] = True
        joined = np.concatenate(active)
        order = np.argsort(joined, kind="stable")
        every, parent = joined[order], np.concatenate(around)[order]
        place = np.minimum(np.searchsorted(every, parent), len(every) - 1) if len(every) else parent
        for mine, inner, rows in launched:
            at = np.minimum(places(every, rows[:-1]), max(len(every) - 1, 0))  # of those that are active
            of_call[mine] = np.append(at, -1)[inner]
        return every, np.where(parent >= 0, place, -1), of_call

    @property
    def active(self) -> Column:
        return self._nested[0]

    @property
    def parent(self) -> Column:
        """Place in `active` of the operator around each, -1 for the outermost."""
        return self._nested[1]

    @cached_property
    def of_op(self) -> Column:
        """Place in `active` of the operator that issued each GPU operation, -1 where none did."""
        call, of_call = self.facts.call_of, self._nested[2]
        if not len(of_call):
            return constant(-1, len(call))
        return np.where(call >= 0, of_call[call], -1)

    @cached_property
    def _in_window(self) -> Column:
        ops, (low, high, _) = self.facts.timeline.ops, self.facts.window
        return np.flatnonzero((ops.end > low) & (ops.start < high))

    @cached_property
    def own(self) -> Column:
        """GPU time of what each operator issued itself in the window."""
        ops, rows = self.facts.timeline.ops, self._in_window
        rows = rows[self.of_op[rows] >= 0]
        out = np.zeros(len(self.active), dtype=np.int64)
        np.add.at(out, self.of_op[rows], (ops.end - ops.start)[rows])
        return out

    @cached_property
    def total(self) -> Column:
        """The same with what is inside of it."""
        out, parent = self.own.copy(), self.parent
        depth = np.zeros(len(parent), dtype=np.int64)
        at = parent
        while (at >= 0).any():  # as often as the stack is deep
            depth[at >= 0] += 1
            at = np.where(at >= 0, parent[at], -1)
        for level in range(int(depth.max(initial=0)), 0, -1):
            mine = np.flatnonzero(depth == level)
            np.add.at(out, parent[mine], out[mine])
        return out

    @cached_property
    def without(self) -> dict[str, tuple[int, int]]:
        """GRAPHS and NONE to (operations, GPU time) in the window of what no operator issued."""
        timeline, rows = self.facts.timeline, self._in_window
        rows = rows[self.of_op[rows] < 0]
        call = self.facts.call_of[rows]
        graph = timeline.ops.graph[rows] != 0
        if len(timeline.calls):
            named = self.facts.named(r"GraphLaunch")[timeline.calls.name]
            graph = graph | (call >= 0) & named[call]
        length = (timeline.ops.end - timeline.ops.start)[rows]
        found = {GRAPHS: graph, NONE: ~graph}
        return {name: (int(mine.sum()), int(length[mine].sum())) for name, mine in found.items() if mine.any()}
