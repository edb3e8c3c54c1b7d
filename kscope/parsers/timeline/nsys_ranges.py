"""NVTX ranges of an export, sorted into those of the user and operators as their rows come: of millions of ranges
nothing is kept but what a Timeline has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kscope.model.columns import Column, by_start, column, renumbered
from kscope.model.timeline import Spans
from kscope.parsers.timeline.growing_column import GrowingColumn, Numbers
from kscope.parsers.timeline.sqlite_labels import Labelled

RANGES = (59, 60)  # NvtxPushPopRange, NvtxStartEndRange
COLUMNS = ("start", "end", "eventType", "globalTid")
"""What `SortedRanges.add` takes, in this order; the text's id may follow."""


class SortedRanges:
    """titled: (text before its cut, whether there is one) to twice the index of its name, one more for an operator.
    registered: the same of a text's id. thread: number of a thread, given as they come."""

    def __init__(
        self, titled: Callable[[str, bool], int], registered: Callable[[int], int], thread: Callable[[int], int]
    ) -> None:
        self._titled, self._registered, self._thread = titled, registered, thread
        self._titles = np.zeros(1, dtype=np.int32)  # of each text, and the last one of none
        self._parts = [{name: GrowingColumn() for name in ("start", "end", "name", "thread")} for _ in range(2)]

    def add(self, block: Labelled) -> None:
        """Some rows, in their order. block.columns: COLUMNS by their places."""
        if new := block.texts[len(self._titles) - 1 :]:
            known = [self._titled(text.decode("utf-8", "replace"), cut) for text, cut in new]
            self._titles = np.concatenate([self._titles[:-1], np.array([*known, 0], dtype=np.int32)])
        title = self._titles[block.label]
        if (block.label < 0).any():
            own = block.label >= 0
            ids = block.columns[4] if 4 in block.columns else np.zeros(len(own), dtype=np.int64)
            title[~own] = renumbered(column(ids[~own]), lambda each: [self._registered(i) for i in each.tolist()])
        start, end, kind, tid = (block.columns[i] for i in range(4))
        kept = (kind == RANGES[0]) | (kind == RANGES[1])
        if not kept.any():
            return
        operator = (title & 1).astype(bool)
        values = {"start": start, "end": np.maximum(end, start), "name": title >> 1, "thread": self._threads(tid, kept)}
        for mine, parts in zip((kept & ~operator, kept & operator), self._parts, strict=True):
            count = int(np.count_nonzero(mine))
            rows = slice(None) if count == len(mine) else np.flatnonzero(mine)
            for name, part in parts.items():
                part.add(values[name][rows], count, int((part.size + count) / block.done * _ROOM))

    def _threads(self, tid: Numbers, kept: Column) -> Column:
        """Their numbers, 0 for rows that are not kept."""
        if (tid == tid[0]).all():
            return np.full(len(tid), self._thread(int(tid[0])), dtype=np.int32)
        found, first = np.unique(tid[kept], return_index=True)
        number = {int(found[i]): self._thread(int(found[i])) for i in np.argsort(first).tolist()}
        return renumbered(column(tid), lambda each: [number.get(i, 0) for i in each.tolist()])

    def spans(self) -> tuple[Spans, Spans]:
        """(ranges, operators)."""
        out = []
        for parts in self._parts:
            found = {name: part.values() for name, part in parts.items()}
            found |= {name: found[name].astype(np.int64, copy=False) for name in ("start", "end")}
            out.append(Spans(**by_start(found)))
        return out[0], out[1]


_ROOM = 1.1  # for more rows than those so far let expect
