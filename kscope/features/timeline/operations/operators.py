"""GPU time of the framework's operators: each GPU operation belongs to the innermost operator open on its thread
when its call was issued (Kineto's `cpu_op`, emit_nvtx's ranges). Times in ns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.model.columns import Column, constant
from kscope.model.timeline import Timeline

GRAPHS, NONE = "(CUDA graph)", "(no operator)"
"""What operations belong to that no operator issued: replays of graphs, and others."""


class Nesting:
    """Intervals of one thread, sorted by start, as a call stack. rows: their places in the table they are of."""

    def __init__(self, start: Column, end: Column, rows: Column) -> None:
        # of those that begin together the longest is the outermost
        order = np.lexsort((-end, start))
        self.start, self.end, self.rows = start[order], end[order], rows[order]
        self.depth = np.arange(len(start)) - np.searchsorted(np.sort(end), self.start, side="right")
        self.depth += self._empty_before()
        self._levels: dict[int, Column] = {}

    def _empty_before(self) -> Column:
        """Intervals of no length that begin and end at the start of a later one count as ended before they begin, but
        for themselves and those behind them."""
        empty = self.end == self.start
        if not empty.any():
            return np.zeros(len(self.start), dtype=np.int64)
        first = np.searchsorted(self.start, self.start, side="left")
        at_start = np.searchsorted(np.sort(self.end[empty]), self.start, side="right")
        at_start -= np.searchsorted(np.sort(self.end[empty]), self.start, side="left")
        upto = np.append(0, np.cumsum(empty))
        passed: Column = upto[np.arange(len(self.start))] - upto[first]
        return at_start - passed

    def _level(self, depth: int) -> Column:
        if depth not in self._levels:
            self._levels[depth] = np.flatnonzero(self.depth == depth)
        return self._levels[depth]

    def innermost(self, t: Column) -> Column:
        """Row of the innermost interval that is open at each time, -1 where none is."""
        begun = np.searchsorted(self.start, t, side="right")
        open_ = begun - np.searchsorted(np.sort(self.end), t, side="left")
        return self._at(begun, open_ - 1, t)

    def parents(self) -> Column:
        """Row of the interval around each, in the order of `rows`; -1 for the outermost."""
        return self._at(np.arange(len(self.start)), self.depth - 1, self.start)

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


class Operators:
    """The operators of a recording, one row each as in Timeline.operators."""

    def __init__(self, facts: TimelineFacts) -> None:
        self.facts = facts

    def _threads(self) -> Iterator[tuple[int, Nesting]]:
        found: Timeline = self.facts.timeline
        spans = found.operators
        for thread in np.unique(spans.thread).tolist():
            rows = np.flatnonzero(spans.thread == thread)
            yield thread, Nesting(spans.start[rows], spans.end[rows], rows)

    @cached_property
    def _nested(self) -> tuple[Column, Column]:
        """(parent of each operator, operator of each call that launched something), -1 for none."""
        timeline, issuers = self.facts.timeline, np.unique(self.facts.call_of)
        calls = timeline.calls
        issuers = issuers[issuers >= 0]
        parent = np.full(len(timeline.operators), -1, dtype=np.int64)
        of_call = np.full(len(calls), -1, dtype=np.int64)
        for thread, nesting in self._threads():
            parent[nesting.rows] = nesting.parents()
            mine = issuers[calls.thread[issuers] == thread]
            of_call[mine] = nesting.innermost(calls.start[mine])
        return parent, of_call

    @property
    def parent(self) -> Column:
        """Row of the operator around each, -1 for the outermost."""
        return self._nested[0]

    @cached_property
    def of_op(self) -> Column:
        """Row of the operator that issued each GPU operation, -1 where none did."""
        call, of_call = self.facts.call_of, self._nested[1]
        return np.where(call >= 0, of_call[call], -1) if len(of_call) else constant(-1, len(call))

    @cached_property
    def _in_window(self) -> Column:
        ops, (low, high, _) = self.facts.timeline.ops, self.facts.window
        return np.flatnonzero((ops.end > low) & (ops.start < high))

    @cached_property
    def own(self) -> Column:
        """GPU time of what each operator issued itself in the window."""
        ops, rows = self.facts.timeline.ops, self._in_window
        rows = rows[self.of_op[rows] >= 0]
        out = np.zeros(len(self.parent), dtype=np.int64)
        np.add.at(out, self.of_op[rows], (ops.end - ops.start)[rows])
        return out

    @cached_property
    def total(self) -> Column:
        """The same with what is inside of it."""
        out, parent = self.own.copy(), self.parent
        depth = np.zeros(len(parent), dtype=np.int64)
        at = parent.copy()
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
