"""Sets of intervals as sorted columns: union, length before a time, gaps. Times in ns."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from kscope.model.timeline import Column, column


class Cover(Struct, frozen=True):
    """Disjoint intervals, sorted. Made by `union`."""

    start: Column
    end: Column
    upto: Column  # covered length before each interval

    @property
    def length(self) -> int:
        return int((self.end - self.start).sum())

    def before(self, t: Column) -> Column:
        """Covered length before each time of `t`."""
        if not len(self.start):
            return np.zeros(len(t), dtype=np.int64)
        at = np.searchsorted(self.start, t, side="right") - 1
        known = np.maximum(at, 0)
        inside = np.minimum(t, self.end[known]) - self.start[known]
        return np.where(at < 0, 0, self.upto[known] + inside)

    def within(self, start: Column, end: Column) -> Column:
        """Covered length inside each of the intervals [start, end)."""
        return self.before(np.maximum(end, start)) - self.before(start)

    def at(self, t: Column) -> Column:
        """Index of the interval that holds each time (start <= t <= end), -1 where none does."""
        if not len(self.start):
            return np.full(len(t), -1, dtype=np.int64)
        at = np.searchsorted(self.start, t, side="right") - 1
        return np.where((at >= 0) & (t <= self.end[np.maximum(at, 0)]), at, -1)


def union(start: Column, end: Column, low: int | None = None, high: int | None = None) -> Cover:
    """The union of intervals that are sorted by start, clipped to [low, high]."""
    if low is not None and high is not None:
        start, end = np.clip(start, low, high), np.clip(end, low, high)
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return Cover(column([]), column([]), column([]))
    reach = np.maximum.accumulate(end)
    first = np.ones(len(start), dtype=bool)
    first[1:] = start[1:] > reach[:-1]
    begins = np.flatnonzero(first)
    lasts = np.append(begins[1:] - 1, len(start) - 1)
    low_, high_ = start[begins], reach[lasts]
    upto = np.cumsum(high_ - low_)
    return Cover(low_, high_, upto - (high_ - low_))


def gaps(cover: Cover, low: int, high: int) -> tuple[Column, Column]:
    """Starts and ends of what `cover` leaves free of [low, high]."""
    start = np.append(low, cover.end)
    end = np.append(cover.start, high)
    keep = end > start
    return column(start[keep]), column(end[keep])
