"""The ranks of one job: which collective of one recording is which of another, what their clocks differ by, and who
waited for whom. Times in ns.

The operations of a communicator run in one order on all its ranks, but recordings begin and end at different ones:
sequences are laid over one another where the kernels agree and the ends differ least from one another. A collective
ends on all ranks at about the same time, so the median difference of the ends is that of the clocks. Nobody can be
through before the last one has come: from its start until then a rank waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kscope.features.timeline.communication.communication import PAIRWISE, Sent
from kscope.features.timeline.operations.medians import median
from kscope.model.columns import Column, column

_AGREE = 0.9  # of the kernels of two sequences laid over one another
_OVERLAP = 0.5  # of the shorter sequence
_NEAR, _FAR = 48, 256  # shifts tried where the clock tells about where, and where it does not
_TIE_NS = 1_000

Key = tuple[str, tuple[int, ...], int, int]
"""(communicator, its members, and of a transfer the two ranks, else -1 twice)."""


class Table(Struct, frozen=True):
    """What of a recording its job needs. number: its rank. origin: of its clock, 0 where unknown."""

    number: int
    origin: int
    sent: Sent
    low: int
    high: int


class Matched(Struct, frozen=True):
    """The collectives that were found on several ranks, in the order of their last start. rows: for each (rows) and
    each recording (columns) the row of `Sent`, -1 where it takes no part. wait: until the last one came, likewise.
    late: the column of the recording that came last. clock: of each recording less that of the first. in_windows: how
    many operations that communicate the windows of all recordings hold."""

    rows: Column
    wait: Column
    late: Column
    clock: Column
    in_windows: int

    def __len__(self) -> int:
        return len(self.late)


def match(tables: Sequence[Table]) -> Matched:
    """Find the collectives of several recordings in one another."""
    queues: dict[Key, dict[int, Column]] = defaultdict(dict)
    for number, table in enumerate(tables):
        for key, rows in _queues(table).items():
            queues[key][number] = rows
    found: list[Column] = []
    for mine in queues.values():
        if len(mine) > 1:
            found += _aligned(tables, mine)
    none = np.zeros((0, len(tables)), dtype=np.int64)
    rows = np.concatenate([none, *found]) if found else none
    clock = _clocks(tables, rows)
    start, end = _times(tables, rows, clock, "start"), _times(tables, rows, clock, "end")
    part = rows >= 0
    last = np.where(part, start, np.iinfo(np.int64).min).max(axis=1, initial=np.iinfo(np.int64).min)
    order = np.argsort(last, kind="stable")
    rows, start, end, part, last = rows[order], start[order], end[order], part[order], last[order]
    wait = np.where(part, np.clip(last[:, None] - start, 0, np.maximum(end - start, 0)), 0)
    late = np.where(part, start, np.iinfo(np.int64).min).argmax(axis=1) if len(rows) else column([])
    inside = sum(int(((t.sent.start >= t.low) & (t.sent.start < t.high)).sum()) for t in tables)
    return Matched(rows, wait, late, clock, inside)


def _queues(table: Table) -> dict[Key, Column]:
    """Rows of each communicator, and of each pair of ranks that sends to one another, in the order of start."""
    sent = table.sent
    pairs = np.array([kind in PAIRWISE for kind in sent.kinds] or [False])[sent.what] & (sent.peer >= 0)
    out: dict[Key, list[int]] = defaultdict(list)
    for row, (group, pair, peer) in enumerate(
        zip(sent.group.tolist(), pairs.tolist(), sent.peer.tolist(), strict=True)
    ):
        name, members, _ = sent.groups[group]
        two = (min(table.number, peer), max(table.number, peer)) if pair else (-1, -1)
        out[name, members, *two].append(row)
    return {key: column(rows) for key, rows in out.items()}


def _aligned(tables: Sequence[Table], mine: dict[int, Column]) -> list[Column]:
    """Rows of `Matched.rows` for one communicator: all laid over the shortest sequence."""
    first = min(mine, key=lambda number: (len(mine[number]), number))
    base = mine[first]
    out = np.full((len(base), len(tables)), -1, dtype=np.int64)
    out[:, first] = base
    for number, rows in mine.items():
        if number == first:
            continue
        shift = _shift(tables[first], base, tables[number], rows)
        if shift is None:
            continue
        at = np.arange(len(base)) + shift
        there = np.flatnonzero((at >= 0) & (at < len(rows)))
        same = _kernels(tables[first], base[there]) == _kernels(tables[number], rows[at[there]])
        there = there[same]
        out[there, number] = rows[at[there]]
    return [out[(out >= 0).sum(axis=1) > 1]]


def _kernels(table: Table, rows: Column) -> Column:
    """A number for the kernel of each row that is the same in all recordings."""
    numbers = column([hash(name) for name in table.sent.kernels])
    return numbers[table.sent.kernel[rows]] if len(rows) else rows


def _shift(a: Table, mine: Column, b: Table, theirs: Column) -> int | None:
    """By how many places the second sequence is ahead of the first; None where they do not fit."""
    kernels, others = _kernels(a, mine), _kernels(b, theirs)
    end, ends = a.sent.end[mine] + a.origin, b.sent.end[theirs] + b.origin
    clock = a.origin != 0 and b.origin != 0
    best: tuple[int, int, int] | None = None
    found: int | None = None
    for shift in _shifts(end, ends, clock):
        low, high = max(0, -shift), min(len(mine), len(theirs) - shift)
        if high - low < max(_OVERLAP * min(len(mine), len(theirs)), 1):
            continue
        if float((kernels[low:high] == others[low + shift : high + shift]).mean()) < _AGREE:
            continue
        apart = ends[low + shift : high + shift] - end[low:high]
        middle = int(median(apart))
        spread = int(median(np.abs(apart - middle))) if high - low > 1 else abs(middle) if clock else 0
        rank = (spread // _TIE_NS, abs(middle) // _TIE_NS if clock else 0, -(high - low))
        if best is None or rank < best:
            best, found = rank, shift
    return found


def _shifts(end: Column, ends: Column, clock: bool) -> list[int]:
    """Shifts worth trying: near what the clock says, and those that let the sequences begin or end together."""
    count, other = len(end), len(ends)
    wide = _NEAR if clock else _FAR
    middles = {0, other - count}
    if clock:
        middles.add(int(median(np.searchsorted(ends, end) - np.arange(count))))
    tried = {m + d for m in middles for d in range(-wide, wide + 1)}
    return sorted(s for s in tried if -count < s < other)


def _clocks(tables: Sequence[Table], rows: Column) -> Column:
    """The clock of each recording less that of the first: medians of the ends' differences, along the ranks that share
    collectives. 0 (of the origins) for a recording that shares none."""
    clock = origins(tables)
    there = rows >= 0
    shared = there.T.astype(np.int64) @ there
    known = np.zeros(len(tables), dtype=bool)
    known[0] = True
    ends = [t.sent.end for t in tables]
    while not known.all():  # the pair of a known and an unknown recording that shares most
        pairs = np.where(known[:, None] & ~known[None, :], shared, -1)
        a, b = (int(i) for i in np.unravel_index(int(pairs.argmax()), pairs.shape))
        if shared[a, b]:
            both = rows[there[:, a] & there[:, b]]
            clock[b] = clock[a] + int(median(ends[b][both[:, b]] - ends[a][both[:, a]]))
        known[b] = True
    return clock


def origins(tables: Sequence[Table]) -> Column:
    """The same as the recordings themselves say: from their origins."""
    first = tables[0].origin
    return column([first - t.origin if t.origin and first else 0 for t in tables])


def _times(tables: Sequence[Table], rows: Column, clock: Column, what: str) -> Column:
    """Starts or ends in the clock of the first recording; 0 where a recording takes no part."""
    out = np.zeros(rows.shape, dtype=np.int64)
    for number, table in enumerate(tables):
        if not len(table.sent):
            continue
        values = getattr(table.sent, what)
        out[:, number] = np.where(rows[:, number] >= 0, values[np.maximum(rows[:, number], 0)] - clock[number], 0)
    return out
