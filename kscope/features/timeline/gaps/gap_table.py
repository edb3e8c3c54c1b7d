"""The gaps between a GPU's operations as columns, and the names of their causes. Times in ns."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from kscope.features.timeline.operations.launches import Mask
from kscope.model.columns import Column, blocks

LAUNCH, GRAPH, SYNC, COPY, HOST, DATA, ALLOC, LOADING, START, QUEUED, UNKNOWN, LOST, INSIDE, PROFILER = CAUSES = (
    "launch", "graph_launch", "synchronization", "blocking_copy", "host", "data_loading", "allocation", "code_loading",
    "start_up", "queued", "unknown", "graph_not_recorded", "inside_graph", "profiler",
)  # fmt: skip
NOT_IDLE = (INSIDE, PROFILER, LOST)
"""Causes that are no idle time of the program: between the nodes of one graph launch, in the profiler itself, and
where a graph ran whose kernels were not recorded. "queued" is the device's own: the operation had arrived before the
gap began (its call was over, and a launch's flight behind it), and waited for its turn, another stream or device."""


class Gaps(Struct, frozen=True, dict=True):
    """Gaps of all devices; `cause` indexes CAUSES. own: the part that is the profiler's. thread: of the host, or -1.
    op: the operation that ends the gap, -1 at the end of the window; last: the one before it. once: whether it happened
    once (kscope.features.timeline.operations.steady): it counts for no cause, and shares are of the window without
    it."""

    start: Column
    end: Column
    own: Column
    cause: Column
    thread: Column
    device: Column
    op: Column
    last: Column
    once: Mask

    def time(self, cause: str) -> int:
        """Idle time of a cause, ns, summed over devices."""
        return self._totals[0][CAUSES.index(cause)]

    def count(self, cause: str) -> int:
        return self._totals[1][CAUSES.index(cause)]

    @cached_property
    def _totals(self) -> tuple[list[int], list[int]]:
        """(idle time, number of gaps) by cause."""
        time, count = np.zeros(len(CAUSES), dtype=np.int64), np.zeros(len(CAUSES), dtype=np.int64)
        for rows in blocks(len(self.start)):
            cause, again = self.cause[rows], ~self.once[rows]
            count += np.bincount(cause[again], minlength=len(CAUSES))
            # exact: doubles hold the sums of a block
            idle = (self.end[rows] - self.start[rows] - self.own[rows]) * again
            time += np.bincount(cause, weights=idle, minlength=len(CAUSES)).astype(np.int64)
        time[CAUSES.index(PROFILER)] = self.own.sum()
        return time.tolist(), count.tolist()

    @cached_property
    def rest(self) -> Column:
        """Of each gap what is not the profiler's, ns."""
        return self.end - self.start - self.own

    @cached_property
    def once_time(self) -> int:
        """Idle time of gaps that happened once, ns, summed over devices."""
        return int(self.rest[self.once].sum())
