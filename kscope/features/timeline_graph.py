"""Sequences of launches that repeat, and what replaying them as a CUDA graph would save."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np
from msgspec import Struct

from kscope.features.timeline import TimelineFacts
from kscope.features.timeline_gaps import CAUSES, LAUNCH, QUEUED, Causes
from kscope.model.timeline import Column, Op, column, distinct

NODE_NS = 300
"""Device time between two nodes of a replayed graph beyond their own: 60 to 580 ns in chains of 100 to 528 nodes
(H200, driver 580, CUDA 13: four transformer stacks, a decoder, a multigrid solver)."""
QUEUED_NS = 1_100
"""The same between two launches that were issued in time (H200, molecular dynamics); recorded, it is longer."""
RECORDED_CALL_NS, RECORDED_OPERATOR_NS = 550, 1_100
"""What recording one API call, and one operator of the framework, costs the host under the torch profiler: measured on
the same programs with and without it. A graph saves that in the recording, but not in the program."""
REPLAY_NS = 10_000
"""Host time of one cudaGraphLaunch: replays cannot follow one another faster."""
_LEAST_OPS = 8
_LEAST_TIMES = 2


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

    def __init__(self, facts: TimelineFacts, causes: Causes) -> None:
        self.facts = facts
        self.causes = causes

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
        for device in self.facts.devices:
            mine = np.flatnonzero(eligible & (ops.device == device))
            for thread in distinct(calls.thread[call_of[mine]])[0].tolist():
                rows = mine[calls.thread[call_of[mine]] == thread]
                rows = rows[np.argsort(call_of[rows], kind="stable")]
                for part in self._parts(rows, thread):
                    what = np.column_stack([ops.name[part], ops.grid[part, 0], ops.kind[part]])
                    groups[thread, what.tobytes()].append(part)
        sequences = [
            self._sequence(thread, parts)
            for (thread, _), parts in groups.items()
            if len(parts) >= _LEAST_TIMES and len(parts[0]) >= _LEAST_OPS
        ]
        return sorted(sequences, key=lambda s: -s.saved_ns)

    def _parts(self, rows: Column, thread: int) -> list[Column]:
        """Runs of operations that one graph could hold: cut at steps, synchronisations, allocations, host copies."""
        facts, calls = self.facts, self.facts.timeline.calls
        ops, call_of = facts.timeline.ops, facts.call_of
        stops = (self.causes.calls["sync"] | self.causes.calls["alloc"]) & (calls.thread == thread)
        host = rows[(ops.kind[rows] == Op.MEMCPY) & (ops.pageable[rows] != 0)]
        borders = [calls.start[stops], calls.start[call_of[host]]]
        issued = calls.start[call_of[rows]]
        if facts.steps is not None and not facts.steps.periodic:
            borders.append(facts.steps.start)
        elif facts.steps is not None:
            borders.append(issued[np.isin(ops.start[rows], facts.steps.start)])
        cut = np.searchsorted(np.sort(np.concatenate(borders)), issued, side="right")
        keep = ~((ops.kind[rows] == Op.MEMCPY) & (ops.pageable[rows] != 0))
        return [part[keep_] for part, keep_ in zip(_split(rows, cut), _split(keep, cut), strict=True) if keep_.any()]

    def _sequence(self, thread: int, parts: list[Column]) -> Sequence:
        """All repetitions at once: rows of one matrix."""
        timeline = self.facts.timeline
        ops, calls, call_of = timeline.ops, timeline.calls, self.facts.call_of
        rows = np.stack(parts)
        first, last = calls.start[call_of[rows[:, 0]]], calls.end[call_of[rows[:, -1]]]
        work = self._own[rows].sum(axis=1)
        turns = self._turns[rows[:, 1:]].sum(axis=1)
        waiting = self._waits[rows[:, 1:]].sum(axis=1)
        waiting += np.minimum(self._waits[rows[:, 0]], ops.start[rows[:, 0]] - first)
        known = np.minimum(self._recording(thread, first, last), waiting)
        wall = work + turns + waiting - known
        replay = np.maximum(work + NODE_NS * rows.shape[1], REPLAY_NS)
        names = tuple(timeline.names[int(i)] for i in ops.name[rows[0, :3]])
        return Sequence(
            rows.shape[1], len(rows), names, int(wall.sum()), int(np.minimum(replay, wall).sum()), int(known.sum())
        )

    @cached_property
    def _own(self) -> Column:
        """For each operation the time that it adds to the union of its device's operations."""
        ops = self.facts.timeline.ops
        out = np.zeros(len(ops), dtype=np.int64)
        for device in self.facts.devices:
            mine = np.flatnonzero(ops.device == device)
            reach = np.maximum.accumulate(ops.end[mine])
            before = np.append(ops.start[mine[:1]], reach[:-1])
            out[mine] = np.maximum(ops.end[mine] - np.maximum(ops.start[mine], before), 0)
        return out

    @cached_property
    def _waits(self) -> Column:
        """For each operation how long the GPU was idle before it because it was issued late."""
        return self._gaps_before(LAUNCH)

    @cached_property
    def _turns(self) -> Column:
        """For each operation that was issued in time how long the device took to begin it, without recording."""
        return np.minimum(self._gaps_before(QUEUED), QUEUED_NS)

    def _gaps_before(self, cause: str) -> Column:
        found = self.causes.gaps
        mask = (found.cause == CAUSES.index(cause)) & (found.op >= 0)
        before = np.zeros(len(self.facts.timeline.ops), dtype=np.int64)
        before[found.op[mask]] = (found.end - found.start - found.own)[mask]
        return before

    def _recording(self, thread: int, begin: Column, end: Column) -> Column:
        """What recording the host events of a thread between two times cost, for each pair of times."""
        timeline = self.facts.timeline
        cost = np.zeros(len(begin), dtype=np.int64)
        if timeline.kind != "kineto":
            return cost
        kinds = (("calls", timeline.calls, RECORDED_CALL_NS), ("operators", timeline.operators, RECORDED_OPERATOR_NS))
        for kind, spans, each in kinds:
            starts = self._starts.get((kind, thread))
            if starts is None:
                starts = self._starts[kind, thread] = spans.start[spans.thread == thread]
            cost += each * (np.searchsorted(starts, end) - np.searchsorted(starts, begin))
        return cost

    @cached_property
    def _starts(self) -> dict[tuple[str, int], Column]:
        return {}


def _split(values: Column, cut: Column) -> list[Column]:
    if not len(values):
        return [column([])]
    return np.split(values, np.flatnonzero(np.diff(cut)) + 1)
