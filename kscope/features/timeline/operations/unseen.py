"""Launches whose operation the recording does not hold: captured into a graph, which runs nothing, lost, or to come."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from kscope.features.timeline.operations.intervals import union
from kscope.features.timeline.operations.launches import TimelineFacts

_LAUNCH = r"^cu(da)?Launch(Cooperative)?Kernel"
_BEGIN, _END = r"^cu(da)?StreamBeginCapture", r"^cu(da)?StreamEndCapture"
BLIND = 0.5  # share of the launches without their operation, from which on the GPU's side is unknown


class Unseen(Struct, frozen=True):
    """launches: API calls that launch kernels, in the whole recording. captured: of those without an operation the ones
    between the begin and the end of a stream capture. lost: the others without one, but those behind the last that has
    one, `pending`: what was still to run when the recording ended. working: whether the GPU ran until then, as far as
    its queue lets expect; else its last operations may be lost too."""

    launches: int
    captured: int
    lost: int
    pending: int = 0
    working: bool = False

    @property
    def all(self) -> int:
        return self.captured + self.lost + self.pending

    @property
    def most(self) -> bool:
        """Whether so many launches have no operation that the GPU's side is unknown. What waits in a queue when the
        recording ends is no part of what it should have seen."""
        due = self.pending if self.working else 0
        return self.all - due > BLIND * max(self.launches - due, 1)


def unseen(facts: TimelineFacts) -> Unseen:
    """What of the launches has no GPU operation. A capture that does not end within the recording lasts to its end."""
    calls = facts.timeline.calls
    if not len(calls):
        return Unseen(0, 0, 0)
    launches = facts.named(_LAUNCH)[calls.name]
    seen = np.zeros(len(calls), dtype=bool)
    seen[facts.call_of[facts.call_of >= 0]] = True
    missing = np.flatnonzero(launches & ~seen)
    ends = np.flatnonzero(seen)
    if not len(missing):
        return Unseen(int(launches.sum()), 0, 0)
    begin, end = (np.flatnonzero(facts.named(p)[calls.name]) for p in (_BEGIN, _END))
    captured = np.zeros(len(missing), dtype=bool)
    if len(begin):
        stops = np.append(np.sort(calls.end[end]), calls.end.max())
        until = stops[np.searchsorted(stops[:-1], calls.start[begin])]
        captured = union(calls.start[begin], until).holds(calls.start[missing])
    waiting = ~captured & (missing > ends[-1]) if len(ends) else np.zeros(len(missing), dtype=bool)
    pending = int(waiting.sum())
    lost = len(missing) - int(captured.sum()) - pending
    return Unseen(int(launches.sum()), int(captured.sum()), lost, pending, _working(facts))


def _working(facts: TimelineFacts) -> bool:
    """Whether the recording ends sooner behind the last operation than launches took to their operations at its end: of
    what was launched meanwhile nothing had to begin."""
    timeline = facts.timeline
    tied = np.flatnonzero(facts.call_of >= 0)
    if not len(tied):
        return False
    last = tied[np.argmax(facts.call_of[tied])]
    waited = int(timeline.ops.start[last] - facts.issued[last])
    return int(timeline.calls.end.max() - timeline.ops.end.max()) < waited
