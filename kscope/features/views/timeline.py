"""The rows of a timeline for its view: operations by stream, what host threads did, gaps with their causes, and which
call launched which operation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.gaps.gap_table import CAUSES
from kscope.features.views.operators import operator_tree, threads_of
from kscope.features.views.timeline_path import counter_courses, memory_courses, path_detail
from kscope.model.columns import Column
from kscope.model.contract.timeline_detail import GapRow, Row, TimelineDetail
from kscope.model.errors import one_line
from kscope.model.timeline import Calls, GpuOps, Op, Spans

MOST = 60_000
"""Events drawn one by one; beyond, neighbours of a row are merged until so many are left."""
NESTED = 3  # levels of ranges and operators shown of a thread
MERGED = "(merged)"
_KINDS = {Op.KERNEL: "kernels", Op.GRAPH: "kernels", Op.MEMCPY: "copies", Op.MEMSET: "copies"}


def timeline_detail(view: TimelineView, index: int) -> TimelineDetail:
    """index: the place of its TimelineAnalysis. Times are ns from the first event of the recording."""
    timeline, facts = view.timeline, view.facts
    rows = _rows(view)
    origin = min([int(row.start.min()) for row in rows if len(row.start)] + [facts.window[0]])
    limit = _resolution([(row.start, row.end) for row in rows], MOST)
    names = _Names(timeline.names)
    runs = [_starts(row.start, row.end, limit) if limit else np.arange(len(row.start)) for row in rows]
    drawn = _drawn_calls(rows, runs, len(timeline.calls))
    out = []
    for row, at in zip(rows, runs, strict=True):
        begin, finish, name, count = _merged(row, at)
        launched = row.kind == "ops" and len(timeline.calls)
        out.append(
            Row(
                kind=row.kind, title=row.title, device=row.device, start=_delta(begin - origin),
                length=(finish - begin).tolist(),
                name=[names.of(int(n)) if c == 1 else names.merged for n, c in zip(name, count, strict=True)],
                count=count.tolist() if limit else [],
                call=_delta(_launch(facts.call_of[row.place[at]], count, drawn)) if launched else [],
            )
        )  # fmt: skip
    low, high, _ = facts.window
    steps = facts.steps
    marks = [int(s) - origin for s in steps.begin[:2000]] if steps is not None else []
    last = max([int(row.end.max()) for row in rows if len(row.end)] + [high])
    tree = operator_tree(view, names.of, names.text)
    return TimelineDetail(
        index=index, low=low - origin, high=high - origin, end=last - origin, names=names.kept, causes=list(CAUSES),
        rows=out, gaps=_gaps(view, origin), steps=marks, merged_ns=limit,
        operators=tree, critical=path_detail(view, [(row.kind, row.place) for row in rows], origin),
        memory=memory_courses(view, origin), counters=counter_courses(view, origin),
    )  # fmt: skip


class _Names:
    """The names that are drawn, renumbered in the order of first use."""

    def __init__(self, every: tuple[str, ...]) -> None:
        self._every = every
        self._place: dict[int, int] = {}
        self.kept: list[str] = [MERGED]
        self.merged = 0

    def of(self, name: int) -> int:
        if name not in self._place:
            self._place[name] = len(self.kept)
            self.kept.append(one_line(self._every[name])[:300])
        return self._place[name]

    def text(self, what: str) -> int:
        """The place of a text of our own."""
        self.kept.append(what)
        return len(self.kept) - 1


class _Events(NamedTuple):
    """place: of each event in the table of the timeline that it is from."""

    kind: str
    title: str
    device: int
    start: Column
    end: Column
    name: Column
    place: Column


def _rows(view: TimelineView) -> list[_Events]:
    """Streams first, then the host threads that call CUDA."""
    timeline = view.timeline
    out: list[_Events] = []
    ops = timeline.ops
    for device in np.unique(ops.device).tolist():
        mine = ops.device == device
        for stream in np.unique(ops.stream[mine]).tolist():
            chosen = mine & (ops.stream == stream)
            kinds = _kind(ops, chosen)
            title = f"GPU {device} stream {stream}{f' {kinds}' if kinds else ''}"
            out.append(_events("ops", title, ops, np.flatnonzero(chosen), device))
    calls = timeline.calls
    for thread, title in threads_of(timeline):
        for kind, spans in (("ranges", timeline.ranges), ("operators", timeline.operators)):
            chosen = np.flatnonzero(spans.thread == thread)
            depth = _depth(spans.start[chosen], spans.end[chosen])
            for level in range(min(NESTED, int(depth.max()) + 1 if len(depth) else 0)):
                out.append(_events(kind, f"{title} {kind}", spans, chosen[depth == level]))
        chosen = np.flatnonzero(calls.thread == thread)
        if len(chosen):
            out.append(_events("calls", f"{title} CUDA API", calls, chosen))
    return out


def _events(kind: str, title: str, table: GpuOps | Calls | Spans, index: Column, device: int = -1) -> _Events:
    return _Events(kind, title, device, table.start[index], table.end[index], table.name[index], index)


def _drawn_calls(rows: list[_Events], runs: list[Column], calls: int) -> Column:
    """For each API call the number, from 1, of what is drawn for it, counted over all rows of calls; 0 for none."""
    out = np.zeros(calls, dtype=np.int64)
    before = 1
    for row, at in zip(rows, runs, strict=True):
        if row.kind == "calls":
            out[row.place] = before + np.searchsorted(at, np.arange(len(row.place)), side="right") - 1
            before += len(at)
    return out


def _launch(call: Column, count: Column, drawn: Column) -> Column:
    """What is drawn for the call of each operation; 0 where it is not recorded, and of operations that were merged."""
    return np.where((call >= 0) & (count == 1), drawn[call], 0)


def _kind(ops: GpuOps, chosen: NDArray[np.bool_]) -> str:
    kinds = {_KINDS[Op(int(k))] for k in np.unique(ops.kind[chosen])}
    return next(iter(kinds)) if len(kinds) == 1 else ""


def _depth(start: Column, end: Column) -> Column:
    """How many earlier intervals are still open at each start, by the order of a call stack."""
    depth = np.zeros(len(start), dtype=np.int64)
    open_: list[int] = []
    for i, (s, e) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while open_ and open_[-1] <= s:
            open_.pop()
        depth[i] = len(open_)
        open_.append(e)
    return depth


def _resolution(rows: list[tuple[Column, Column]], most: int) -> int:
    """The smallest distance, a power of two in ns, at which merging leaves at most so many events; 0 if all fit."""
    if sum(len(s) for s, _ in rows) <= most:
        return 0
    limit = 256
    while sum(len(_starts(s, e, limit)) for s, e in rows) > most:
        limit *= 2
    return limit


def _starts(start: Column, end: Column, limit: int) -> Column:
    """Indices that begin a merged run: long events stand alone, short ones join a near short neighbour."""
    if not len(start):
        return start
    short = end - start < limit
    near = start[1:] - end[:-1] < limit
    same = start[1:] // (4 * limit) == start[:-1] // (4 * limit)
    joined = short[1:] & short[:-1] & near & same
    return np.flatnonzero(np.concatenate([[True], ~joined]))


def _merged(row: _Events, at: Column) -> tuple[Column, Column, Column, Column]:
    """(start, end, name, how many) of the runs that begin at these indices."""
    if not len(at):
        return row.start, row.end, row.name, np.zeros(0, dtype=np.int64)
    stop = np.append(at[1:], len(row.start))
    return row.start[at], np.maximum.reduceat(row.end, at), row.name[at], stop - at


def _delta(start: Column) -> list[int]:
    return np.diff(start, prepend=0).tolist() if len(start) else []


def _gaps(view: TimelineView, origin: int) -> list[GapRow]:
    found = view.causes.gaps
    out = []
    for device in view.facts.devices:
        mine = np.flatnonzero(found.device == device)
        mine = mine[np.argsort(found.start[mine], kind="stable")]
        length = (found.end - found.start)[mine]
        if len(mine) > MOST // 2:  # the longest ones, still in order of time
            kept = np.sort(np.argsort(-length, kind="stable")[: MOST // 2])
            mine, length = mine[kept], length[kept]
        out.append(
            GapRow(
                device=device, start=_delta(found.start[mine] - origin), length=length.tolist(),
                cause=found.cause[mine].tolist(),
            )
        )  # fmt: skip
    return out
