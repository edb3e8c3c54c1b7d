"""Sets of intervals as sorted columns: union, covered length, gaps. Times in ns."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.model.columns import Column, blocks, column

_FEW = 8  # so many times fewer intervals than what is asked about: it is faster to ask the other way round


class Cover(Struct, frozen=True):
    """Disjoint intervals, sorted. Made by `union`; its columns may be those of the intervals it was made of."""

    start: Column
    end: Column

    @property
    def length(self) -> int:
        return int((self.end - self.start).sum())

    def _near(self, low: int, high: int) -> tuple[Column, Column]:
        """The intervals that touch [low, high]."""
        near = slice(*np.searchsorted(self.end, [low]), *np.searchsorted(self.start, [high], side="right"))
        return self.start[near], self.end[near]

    def within(self, start: Column, end: Column) -> Column:
        """Covered length inside each of the intervals [start, end); 0 for those that end before they begin."""
        out = np.zeros(len(start), dtype=np.int64)
        for rows in blocks(len(start) if len(self.start) else 0):
            low, high = start[rows], end[rows]
            begin, stop = self._near(int(low.min()), int(high.max()))
            if not len(begin):
                continue
            if _FEW * len(begin) > len(low) or not (_rising(low) and _rising(high)):
                out[rows] = _within(begin, stop, low, high)
            else:  # only what they touch
                first = np.searchsorted(high, begin, side="right")
                touched = _ranges(first, np.searchsorted(low, stop))
                out[rows.start + touched] = _within(begin, stop, low[touched], high[touched])
        return out

    def at(self, t: Column) -> Column:
        """Index of the interval that holds each time (start <= t <= end), -1 where none does."""
        if not len(self.start):
            return np.full(len(t), -1, dtype=np.int64)
        at = np.searchsorted(self.start, t, side="right") - 1
        return np.where((at >= 0) & (t <= self.end[np.maximum(at, 0)]), at, -1)

    def holds(self, t: Column) -> NDArray[np.bool_]:
        """Whether an interval holds each time (start <= t <= end)."""
        if not len(t):
            return np.zeros(0, dtype=bool)
        begin, stop = self._near(int(t.min()), int(t.max()))
        if _FEW * len(begin) > len(t) or not _rising(t):
            return np.searchsorted(stop, t) < np.searchsorted(begin, t, side="right")
        out = np.zeros(len(t), dtype=bool)
        out[_ranges(np.searchsorted(t, begin), np.searchsorted(t, stop, side="right"))] = True
        return out


def _rising(values: Column) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def _ranges(first: Column, last: Column) -> Column:
    """The numbers that lie in any of the ranges [first, last), each once, in order. Both are in order."""
    first = np.maximum(first, np.append(first[:1], np.maximum.accumulate(last)[:-1]))
    length = np.maximum(last - first, 0)
    ahead = np.cumsum(length) - length
    return np.repeat(first - ahead, length) + np.arange(int(length.sum()))


def _within(begin: Column, stop: Column, low: Column, high: Column) -> Column:
    """Length of disjoint intervals, sorted, inside each [low, high)."""
    if not len(begin) or not len(low):
        return np.zeros(len(low), dtype=np.int64)
    upto = np.append(0, np.cumsum(stop - begin))
    stop = np.append(low.min(), stop)
    return _before(begin, stop, upto, np.maximum(high, low)) - _before(begin, stop, upto, low)


def _before(start: Column, end: Column, upto: Column, t: Column) -> Column:
    """Covered length before each time; `end` and `upto` (the length before an interval) begin one interval earlier."""
    number = places(start, t, side="right") if len(t) > _FEW else np.searchsorted(start, t, side="right")
    before: Column = upto[number] - np.maximum(end[number] - t, 0)
    return before


def union(start: Column, end: Column, low: int | None = None, high: int | None = None) -> Cover:
    """The union of intervals that are sorted by start, clipped to [low, high]."""
    if low is not None and high is not None and len(start) and (int(start[0]) < low or int(end.max()) > high):
        start, end = np.clip(start, low, high), np.clip(end, low, high)
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    if not len(start):
        return Cover(column([]), column([]))
    reach = reached(end)
    apart = start[1:] > reach[:-1]
    if apart.all():
        return Cover(start, reach)
    lasts = np.flatnonzero(apart)
    return Cover(np.append(start[0], start[1:][lasts]), np.append(reach[lasts], reach[-1]))


def reached(end: Column) -> Column:
    """The largest value up to each place."""
    return end if _rising(end) else np.maximum.accumulate(end)


def covered(start: Column, end: Column, low: int, high: int, chosen: NDArray[np.bool_] | None = None) -> int:
    """Length of the union of these (chosen) intervals, sorted by start, inside [low, high]."""
    total, reach = 0, low
    chosen = None if chosen is not None and chosen.all() else chosen
    for rows in blocks(len(start)):
        begin, stop = start[rows], end[rows]
        if chosen is not None:
            begin, stop = begin[chosen[rows]], stop[chosen[rows]]
        if len(begin):
            upto = np.maximum.accumulate(np.append(reach, np.minimum(stop, high)))
            total += int(np.maximum(upto[1:] - np.maximum(begin, upto[:-1]), 0).sum())
            reach = int(upto[-1])
    return total


def gaps(cover: Cover, low: int, high: int) -> tuple[Column, Column]:
    """Starts and ends of what `cover` leaves free of [low, high]."""
    start = np.append(low, cover.end)
    end = np.append(cover.start, high)
    keep = end > start
    return (start, end) if keep.all() else (start[keep], end[keep])


def places(sorted_: Column, values: Column, side: str = "left") -> Column:
    """numpy.searchsorted for long columns of values that are in order, or nearly."""
    out = np.empty(len(values), dtype=np.int64)
    for rows in blocks(len(values)):
        some = values[rows]
        low, high = np.searchsorted(sorted_, [some.min(), some.max()], side=side)  # type: ignore[call-overload]
        near = sorted_[low:high]
        each = len(near) // max(len(some) - 1, 1)
        if each and len(near) == each * (len(some) - 1) and _in_turn(near, some, side, each):
            out[rows] = np.arange(low, high + 1, each)
        else:
            out[rows] = np.searchsorted(near, some, side=side) + low  # type: ignore[call-overload]
    return out


def _in_turn(near: Column, values: Column, side: str, each: int) -> bool:
    """Whether so many of `near` lie between every two values, as the calls of a loop do between two operations."""
    first, last = near[::each], near[each - 1 :: each]
    if side == "left":
        return bool((values[:-1] <= first).all()) and bool((last < values[1:]).all())
    return bool((values[:-1] < first).all()) and bool((last <= values[1:]).all())
