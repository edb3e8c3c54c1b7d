"""What recording cost the program: the torch profiler's part of the host's time. Times in ns."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.model.columns import Column

CALL_NS, OPERATOR_NS = 550, 1_100
"""What recording one API call, and one operator of the framework, costs the host under the torch profiler: measured on
the same programs with and without it (H200, torch 2.11)."""
COLLECTIVE_NS = 30_000
"""What issuing a collective takes the host by itself; `record_param_comms` lasts longer while its arguments are
recorded (45 to 160 us on the two-rank jobs of fixtures/traces/ranks, of which tensor_parallel loses 105 us each against
its time without a profiler). Judged: NCCL's enqueue and c10d's bookkeeping."""


class RecordingCost:
    """The cost of recording, by thread. Zero for Nsight Systems, whose cost was not measured."""

    def __init__(self, facts: TimelineFacts) -> None:
        self.facts = facts

    def between(self, thread: int, begin: Column, end: Column) -> Column:
        """On a thread, between each pair of times."""
        starts, upto = self._costs(thread)
        return upto[np.searchsorted(starts, end)] - upto[np.searchsorted(starts, begin)]

    @cached_property
    def busiest(self) -> int:
        """The cost in the window on the thread with the most API calls, ns."""
        calls = self.facts.timeline.calls
        if not len(calls) or self.facts.timeline.kind != "kineto":
            return 0
        low, high, _ = self.facts.window
        thread = int(np.argmax(np.bincount(calls.thread)))
        return int(self.between(thread, np.array([low]), np.array([high]))[0])

    def _costs(self, thread: int) -> tuple[Column, Column]:
        """(starts of what was recorded, in order; the cost of all before each, one more for the end)."""
        if thread not in self._known:
            timeline = self.facts.timeline
            starts, costs = [], []
            if timeline.kind == "kineto":
                operators = timeline.operators
                mine = operators.thread == thread
                named = self.facts.named(r"^record_param_comms$")[operators.name] if len(operators) else mine
                length = operators.end - operators.start
                extra = np.where(named, np.maximum(length - COLLECTIVE_NS, 0), 0)
                calls = timeline.calls.start[timeline.calls.thread == thread]
                starts = [calls, operators.start[mine]]
                costs = [np.full(len(calls), CALL_NS), OPERATOR_NS + extra[mine]]
            start = np.concatenate([np.zeros(0, dtype=np.int64), *starts])
            cost = np.concatenate([np.zeros(0, dtype=np.int64), *costs])
            order = np.argsort(start, kind="stable")
            self._known[thread] = start[order], np.append(0, np.cumsum(cost[order]))
        return self._known[thread]

    @cached_property
    def _known(self) -> dict[int, tuple[Column, Column]]:
        return {}
