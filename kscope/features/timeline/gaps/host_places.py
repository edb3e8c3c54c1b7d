"""What the host was in while a GPU was idle: the innermost range or operator of the thread that was late."""

from __future__ import annotations

from collections import Counter

import numpy as np

from kscope.features.timeline.gaps.gap_table import Gaps
from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.features.timeline.operations.steps import NUMBER
from kscope.model.columns import Column, different, is_constant

_PLACES = 4000  # gaps that are searched for what the host was doing
_MANY, _SAMPLE = 100_000, 10_000


class HostPlaces:
    """Names of places in a recording."""

    def __init__(self, facts: TimelineFacts) -> None:
        self.facts = facts

    def _stem(self, name: str) -> str:
        """The steps' common name for one of them, so that their times add up."""
        steps = self.facts.steps
        stem = NUMBER.sub("#", name)
        return stem if steps is not None and stem == steps.name else name

    def during(self, found: Gaps, rows: Column) -> list[tuple[str, int]]:
        """Names with their idle time (ns) for some gaps, most time first."""
        timeline = self.facts.timeline
        rows = rows[_longest(found.rest[rows], _PLACES)]
        length = found.rest[rows]
        time: Counter[str] = Counter()
        for one in different(found.thread[rows]).tolist():
            of_it = found.thread[rows] == one
            mine = rows[of_it]
            # judged a little before the next operation is issued: there the host still does what it is late with
            middle = (found.start[mine] + found.end[mine]) // 2
            name = np.full(len(mine), -1, dtype=np.int64)
            for spans in (timeline.operators, timeline.ranges):
                alone = is_constant(spans.thread) and spans.thread[0] == one  # no copies of millions of rows
                mask = slice(None) if alone else spans.thread == one
                inner = _innermost(spans.start[mask], spans.end[mask], middle)
                hit = (name < 0) & (inner >= 0)
                name[hit] = spans.name[mask][inner[hit]]
            for at, idle in zip(name.tolist(), length[of_it].tolist(), strict=True):
                if at >= 0:
                    time[self._stem(timeline.names[at])] += idle
        return time.most_common()


def _innermost(start: Column, end: Column, t: Column) -> Column:
    """Index of the latest of nested intervals that holds each time, -1 where none does."""
    out = np.full(len(t), -1, dtype=np.int64)
    at = np.searchsorted(start, t, side="right") - 1
    for _ in range(256):  # outwards: siblings that ended before are passed over
        open_ = np.flatnonzero((out < 0) & (at >= 0))
        if not len(open_):
            break
        hit = end[at[open_]] >= t[open_]
        out[open_[hit]] = at[open_[hit]]
        at[open_[~hit]] -= 1
    return out


def _longest(length: Column, most: int) -> Column:
    """Indices of the longest so many, longest first, equal ones in their order."""
    rows = np.arange(len(length))
    if len(length) > most:
        if len(length) > _MANY:  # those longer than what a sample says is exceeded often enough, if it is
            sample = np.sort(length[:: len(length) // _SAMPLE])
            rows = np.flatnonzero(length >= sample[-min(2 * most * len(sample) // len(length) + 2, len(sample))])
            rows = rows if len(rows) >= most else np.arange(len(length))
        some = length[rows]
        least = np.partition(some, len(some) - most)[len(some) - most]
        above, equal = np.flatnonzero(some > least), np.flatnonzero(some == least)
        rows = rows[np.sort(np.append(above, equal[: most - len(above)]))]
    return rows[np.argsort(-length[rows], kind="stable")]
