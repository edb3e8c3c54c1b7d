"""The rows of a timeline for its view: operations by stream, what host threads did, gaps with their causes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.gaps.gap_table import CAUSES
from kscope.model.columns import Column
from kscope.model.contract.detail import GapRow, Row, TimelineDetail
from kscope.model.errors import one_line
from kscope.model.timeline import GpuOps, Op

MOST = 60_000
"""Events drawn one by one; beyond, neighbours of a row are merged until so many are left."""
NESTED = 3  # levels of ranges and operators shown of a thread
MERGED = "(merged)"
_KINDS = {Op.KERNEL: "kernels", Op.GRAPH: "kernels", Op.MEMCPY: "copies", Op.MEMSET: "copies"}


def timeline_detail(view: TimelineView, index: int) -> TimelineDetail:
    """index: the place of its TimelineAnalysis. Times are ns from the first event of the recording."""
    timeline, facts = view.timeline, view.facts
    rows = _rows(view)
    origin = min([int(s.min()) for _, _, _, s, _, _ in rows if len(s)] + [facts.window[0]])
    limit = _resolution([(s, e) for _, _, _, s, e, _ in rows], MOST)
    names = _Names(timeline.names)
    out = []
    for kind, title, device, start, end, name in rows:
        begin, finish, name, count = _merge(start, end, name, limit)
        out.append(
            Row(
                kind=kind, title=title, device=device, start=_delta(begin - origin),
                length=(finish - begin).tolist(),
                name=[names.of(int(n)) if c == 1 else names.merged for n, c in zip(name, count, strict=True)],
                count=count.tolist() if limit else [],
            )
        )  # fmt: skip
    low, high, _ = facts.window
    steps = facts.steps
    marks = [int(s) - origin for s in steps.begin[:2000]] if steps is not None else []
    last = max([int(e.max()) for _, _, _, _, e, _ in rows if len(e)] + [high])
    return TimelineDetail(
        index=index, low=low - origin, high=high - origin, end=last - origin, names=names.kept, causes=list(CAUSES),
        rows=out, gaps=_gaps(view, origin), steps=marks, merged_ns=limit,
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


_Events = tuple[str, str, int, Column, Column, Column]


def _rows(view: TimelineView) -> list[_Events]:
    """(kind, title, device, start, end, name): streams first, then the host threads that call CUDA."""
    timeline = view.timeline
    out: list[_Events] = []
    ops = timeline.ops
    for device in np.unique(ops.device).tolist():
        mine = ops.device == device
        for stream in np.unique(ops.stream[mine]).tolist():
            chosen = mine & (ops.stream == stream)
            kinds = _kind(ops, chosen)
            title = f"GPU {device} stream {stream}{f' {kinds}' if kinds else ''}"
            out.append(("ops", title, device, ops.start[chosen], ops.end[chosen], ops.name[chosen]))
    calls = timeline.calls
    threads = np.unique(np.concatenate([calls.thread, timeline.ranges.thread, timeline.operators.thread]))
    for number, thread in enumerate(threads.tolist()):
        title = "host thread" if len(threads) == 1 else f"host thread {number}"
        for kind, spans in (("ranges", timeline.ranges), ("operators", timeline.operators)):
            chosen = spans.thread == thread
            start, end, name = spans.start[chosen], spans.end[chosen], spans.name[chosen]
            depth = _depth(start, end)
            for level in range(min(NESTED, int(depth.max()) + 1 if len(depth) else 0)):
                at = depth == level
                out.append((kind, f"{title} {kind}", -1, start[at], end[at], name[at]))
        chosen = calls.thread == thread
        if chosen.any():
            out.append(("calls", f"{title} CUDA API", -1, calls.start[chosen], calls.end[chosen], calls.name[chosen]))
    return out


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


def _merge(start: Column, end: Column, name: Column, limit: int) -> tuple[Column, Column, Column, Column]:
    if not limit or not len(start):
        return start, end, name, np.ones(len(start), dtype=np.int64)
    at = _starts(start, end, limit)
    stop = np.append(at[1:], len(start))
    return start[at], np.maximum.reduceat(end, at), name[at], stop - at


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
