"""Streams and user ranges of the window: how long a stream idles and how much is queued for it, and what the GPU did
for each range, as Nsight Systems projects ranges on the GPU. Times in ns.
"""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.features.timeline.operations.intervals import covered, places
from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.model.columns import Column, combined, distinct

NUMBER = re.compile(r"\d+")


class Stream(Struct, frozen=True):
    """queue: operations that were issued and had not begun, mean over the window (what each of them waited, over its
    length) and most; None where the calls are not recorded."""

    device: int
    process: int
    stream: int
    operations: int
    busy: int
    queue: float | None
    queue_most: int | None


class Projected(Struct, frozen=True):
    """Ranges of one name, numbers in it left out. host: of the ranges; gpu: of the operations that were issued in them;
    projected: from the first to the last of these, of each range. A range in another counts in both."""

    name: str
    count: int
    host: int
    operations: int
    gpu: int
    projected: int


def streams(facts: TimelineFacts) -> list[Stream]:
    """Of each device, those that are busiest first."""
    ops, (low, high, _) = facts.timeline.ops, facts.window
    inside = (ops.end > low) & (ops.start < high)
    key, index = distinct(combined(ops.device, ops.process, ops.stream))
    out = []
    for number in range(len(key)):
        mine = inside & (index == number) if len(key) > 1 else inside
        rows = slice(None) if mine.all() else np.flatnonzero(mine)
        start = ops.start[rows]
        if not len(start):
            continue
        mean = most = None
        known = facts.call_of[rows] >= 0
        if known.all() and high > low:
            issued = facts.issued[rows]
            waited = np.minimum(start, high) - np.minimum(issued, start)
            mean = float(np.minimum(waited, high - low).sum()) / (high - low)
            issued = issued if bool((issued[1:] >= issued[:-1]).all()) else np.sort(issued)
            before = places(start, issued, side="right")
            most = int((np.arange(1, len(issued) + 1) - before).max())
        first = int(mine.argmax())
        busy = covered(ops.start, ops.end, low, high, None if mine.all() else mine)
        device, process, stream = (int(c[first]) for c in (ops.device, ops.process, ops.stream))
        out.append(Stream(device, process, stream, len(start), busy, mean, max(most, 0) if most is not None else None))
    return sorted(out, key=lambda s: (s.device, -s.busy))


def projected(facts: TimelineFacts) -> list[Projected]:
    """Of the user's ranges that issued something; those of most projected time first."""
    timeline, (low, high, _) = facts.timeline, facts.window
    ranges, ops, calls = timeline.ranges, timeline.ops, timeline.calls
    if not len(ranges) or not len(calls):
        return []
    every = np.flatnonzero((facts.call_of >= 0) & (ops.end > low) & (ops.start < high))
    thread = calls.thread[facts.call_of[every]]
    host, length, count, gpu = (np.zeros(len(ranges), dtype=np.int64) for _ in range(4))
    for one in distinct(ranges.thread)[0].tolist():
        mine, rows = np.flatnonzero(ranges.thread == one), every[thread == one]
        if not len(rows):
            continue
        rows = rows[np.argsort(facts.issued[rows], kind="stable")]
        issued = facts.issued[rows]
        first = np.searchsorted(issued, ranges.start[mine], side="left")
        last = np.searchsorted(issued, ranges.end[mine], side="right")
        upto = np.append(0, np.cumsum(ops.end[rows] - ops.start[rows]))
        some = last > first
        mine, first, last = mine[some], first[some], last[some]
        count[mine], gpu[mine] = last - first, upto[last] - upto[first]
        length[mine] = _outer(ops.end[rows], first, last, np.maximum) - _outer(ops.start[rows], first, last, np.minimum)
        host[mine] = ranges.end[mine] - ranges.start[mine]
    return _by_name(facts, np.flatnonzero(count), host, count, gpu, length)


def _outer(values: Column, first: Column, last: Column, of: np.ufunc) -> Column:
    """The least or most of values[first:last], none of them empty."""
    if not len(first):
        return values[:0]
    edges = np.column_stack([first, last]).ravel()
    found: Column = of.reduceat(np.append(values, values[-1]), edges)[::2]
    return found


def _by_name(
    facts: TimelineFacts, rows: Column, host: Column, count: Column, gpu: Column, length: Column
) -> list[Projected]:
    title: dict[int, str] = {}
    numbers, index = distinct(facts.timeline.ranges.name[rows])
    for place, number in enumerate(numbers.tolist()):
        title[place] = NUMBER.sub("#", facts.timeline.names[number])
    names = list(dict.fromkeys(title.values()))
    place_of = {name: i for i, name in enumerate(names)}
    group = np.array([place_of[title[i]] for i in range(len(numbers))], dtype=np.int64)[index]

    def total(column: Column) -> list[int]:
        weights: NDArray[np.float64] = column[rows].astype(float)
        return [int(v) for v in np.bincount(group, weights=weights, minlength=len(names))]

    parts = zip(names, np.bincount(group, minlength=len(names)).tolist(), total(host), total(count), total(gpu),
                total(length), strict=True)  # fmt: skip
    return sorted((Projected(*part) for part in parts), key=lambda p: -p.projected)
