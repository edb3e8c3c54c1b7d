"""Sequences of launches that repeat, and what replaying them as a CUDA graph would save."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np
from msgspec import Struct

from kscope.features.timeline.gaps.gap_table import CAUSES, LAUNCH, QUEUED
from kscope.features.timeline.gaps.gaps import Causes
from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.features.timeline.operations.recording_cost import RecordingCost
from kscope.model.columns import Column, blocks, combined, distinct, is_constant, taken
from kscope.model.timeline import Op

NODE_NS = 300
"""Device time between two nodes of a replayed graph beyond their own: 60 to 580 ns in chains of 100 to 528 nodes
(H200, driver 580, CUDA 13: four transformer stacks, a decoder, a multigrid solver)."""
QUEUED_NS = 1_100
"""The same between two launches that were issued in time (H200, molecular dynamics); recorded, it is longer."""
REPLAY_NS = 10_000
"""Host time of one cudaGraphLaunch: replays cannot follow one another faster."""
_LEAST_OPS = 8
_LEAST_TIMES = 2
_AT_ONCE = 1 << 15


class Sequence(Struct, frozen=True):
    """A sequence of `length` operations that ran `count` times. wall_ns: its operations and the gaps before them that
    are waits for launches, all repetitions, without what recording them cost; graph_ns: the same as graph replays."""

    length: int
    count: int
    first: tuple[str, ...]
    wall_ns: int
    graph_ns: int
    recording_ns: int

    @property
    def saved_ns(self) -> int:
        return max(self.wall_ns - self.graph_ns, 0)


class Sequences:
    """The repeated sequences of a timeline, those that save most first."""

    def __init__(self, facts: TimelineFacts, causes: Causes, cost: RecordingCost) -> None:
        self.facts = facts
        self.causes = causes
        self.cost = cost

    @cached_property
    def found(self) -> list[Sequence]:
        timeline, call_of = self.facts.timeline, self.facts.call_of
        low, high, _ = self.facts.window
        ops, calls = timeline.ops, timeline.calls
        if not len(calls) or not len(ops):
            return []
        eligible = (call_of >= 0) & (ops.start >= low) & (ops.end <= high) & (ops.kind != Op.GRAPH)
        eligible &= ~self.causes.calls["graph"][call_of]
        groups: dict[tuple[int, bytes], list[Column]] = defaultdict(list)
        shapes = self.facts.shapes
        one = np.zeros(int(shapes.max()) + 1, dtype=np.int64)  # an operation of each shape
        for some in blocks(len(ops)):
            one[shapes[some]] = np.arange(some.start, some.stop)
        kinds = combined(ops.name[one], ops.grid[0][one], ops.kind[one])
        for device in self.facts.devices:
            mine = np.flatnonzero(eligible & (ops.device == device))
            threads = taken(calls.thread, call_of[mine])
            for thread in distinct(threads)[0].tolist():
                rows = mine if is_constant(threads) else mine[threads == thread]
                issue = call_of[rows]
                if not (issue[1:] >= issue[:-1]).all():
                    rows = rows[np.argsort(issue, kind="stable")]
                rows, borders = self._parts(rows, thread)
                what, width = kinds[shapes[rows]].tobytes(), kinds.itemsize
                for begin, end in borders:
                    groups[thread, what[begin * width : end * width]].append(rows[begin:end])
        sequences = [
            self._sequence(thread, parts) for (thread, _), parts in groups.items() if len(parts) >= _LEAST_TIMES
        ]
        return sorted(sequences, key=lambda s: -s.saved_ns)

    def _parts(self, rows: Column, thread: int) -> tuple[Column, list[tuple[int, int]]]:
        """Operations that graphs can hold, and where the runs of them that one graph could hold begin and end: cut at
        steps, synchronisations, allocations, host copies. Runs too short for a graph are left out."""
        facts, calls = self.facts, self.facts.timeline.calls
        ops, call_of = facts.timeline.ops, facts.call_of
        stops = (self.causes.calls["sync"] | self.causes.calls["alloc"]) & (calls.thread == thread)
        host = (ops.kind[rows] == Op.MEMCPY) & (ops.pageable[rows] != 0)
        borders = [calls.start[stops], calls.start[call_of[rows[host]]]]
        if facts.steps is not None and not facts.steps.periodic:
            borders.append(facts.steps.start)
        elif facts.steps is not None:
            borders.append(facts.issued[rows[np.isin(ops.start[rows], facts.steps.start)]])
        rows = rows[~host] if host.any() else rows
        cuts = np.searchsorted(facts.issued[rows], np.concatenate(borders), side="left")
        cuts = distinct(np.concatenate([[0], cuts, [len(rows)]]))[0]
        long = np.flatnonzero(np.diff(cuts) >= _LEAST_OPS)
        return rows, list(zip(cuts[long].tolist(), cuts[long + 1].tolist(), strict=True))

    def _sequence(self, thread: int, parts: list[Column]) -> Sequence:
        """Many repetitions at once: rows of one matrix."""
        timeline = self.facts.timeline
        ops, calls, call_of = timeline.ops, timeline.calls, self.facts.call_of
        length = len(parts[0])
        totals = np.zeros(3, dtype=np.int64)
        at_once = max(_AT_ONCE // length, 1)
        for some in (parts[i : i + at_once] for i in range(0, len(parts), at_once)):
            rows = np.stack(some)
            first, last = calls.start[call_of[rows[:, 0]]], calls.end[call_of[rows[:, -1]]]
            work = self._own[rows].sum(axis=1)
            turns = self._turns[rows[:, 1:]].sum(axis=1)
            waiting = self._waits[rows[:, 1:]].sum(axis=1)
            waiting += np.minimum(self._waits[rows[:, 0]], ops.start[rows[:, 0]] - first)
            known = np.minimum(self.cost.between(thread, first, last), waiting)
            wall = work + turns + waiting - known
            replay = np.maximum(work + NODE_NS * length, REPLAY_NS)
            totals += wall.sum(), np.minimum(replay, wall).sum(), known.sum()
        names = tuple(timeline.names[int(i)] for i in ops.name[parts[0][:3]])
        return Sequence(length, len(parts), names, *totals.tolist())

    @cached_property
    def _own(self) -> Column:
        """For each operation the time that it adds to the union of its device's operations."""
        ops = self.facts.timeline.ops
        out = np.zeros(len(ops), dtype=np.int64)
        for device in self.facts.devices:
            reach = int(ops.start[0])
            for rows in blocks(len(ops)):
                mine = np.flatnonzero(ops.device[rows] == device)
                start, end = ops.start[rows][mine], ops.end[rows][mine]
                upto = np.maximum.accumulate(np.append(reach, end))
                out[rows.start + mine] = np.maximum(end - np.maximum(start, upto[:-1]), 0)
                reach = int(upto[-1])
        return out

    @cached_property
    def _waits(self) -> Column:
        """For each operation how long the GPU was idle before it because it was issued late."""
        return self._gaps_before(LAUNCH)

    @cached_property
    def _turns(self) -> Column:
        """For each operation that was issued in time how long the device took to begin it, without recording."""
        return self._gaps_before(QUEUED, QUEUED_NS)

    def _gaps_before(self, cause: str, most: int | None = None) -> Column:
        found = self.causes.gaps
        before = np.zeros(len(self.facts.timeline.ops), dtype=np.int64)
        for rows in blocks(len(found.op)):
            op = found.op[rows]
            mask = (found.cause[rows] == CAUSES.index(cause)) & (op >= 0) & ~found.once[rows]
            idle = (found.end[rows] - found.start[rows] - found.own[rows])[mask]
            before[op[mask]] = idle if most is None else np.minimum(idle, most)
        return before
