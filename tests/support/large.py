"""Views of a size that fixtures do not have: listings of many instructions, recordings of many events."""

from __future__ import annotations

from itertools import accumulate

import msgspec

from kscope.model.contract.detail import CodeDetail
from kscope.model.contract.timeline_detail import GapRow, Row, TimelineDetail


def listing(code: CodeDetail, count: int) -> CodeDetail:
    """A listing of so many instructions with loops, as an unrolled kernel has: `code` again and again."""
    n = len(code.pcs)
    turns = [i % n for i in range(count)]
    return msgspec.structs.replace(
        code, pcs=[16 * i for i in range(count)],
        sass=[code.sass[i] for i in turns], file=[code.file[i] for i in turns],
        line=[code.line[i] for i in turns], samples=[code.samples[i] for i in turns],
        executed=[code.executed[i] for i in turns], lanes=[code.lanes[i] for i in turns],
        loop=[code.loop[i] for i in turns],
        stalls={r: [v for k in range(max(1, count // n)) for j in range(0, len(p), 2) for v in (p[j] + k * n, p[j + 1])]
                for r, p in code.stalls.items()},
    )  # fmt: skip


def recording(detail: TimelineDetail, count: int) -> TimelineDetail:
    """A recording of at least so many events, none merged: `detail` again and again, with its launches."""
    times = -(-count // sum(len(row.start) for row in detail.rows))
    calls = [len(row.start) for row in detail.rows if row.kind == "calls"]

    def starts(row: Row | GapRow) -> list[int]:
        back = detail.end - sum(row.start[1:])
        return row.start + [back, *row.start[1:]] * (times - 1) if row.start else []

    def launches(row: Row) -> list[int]:
        if not row.call:
            return []
        out = []
        for turn in range(times):
            for number in accumulate(row.call):
                out.append(_moved(number, calls, turn, times) if number else 0)
        return [b - a for a, b in zip([0, *out], out, strict=False)]

    rows = [
        msgspec.structs.replace(
            row, start=starts(row), length=row.length * times, name=row.name * times, count=[], call=launches(row)
        )
        for row in detail.rows
    ]
    gaps = [
        msgspec.structs.replace(g, start=starts(g), length=g.length * times, cause=g.cause * times)
        for g in detail.gaps
    ]
    end = detail.end * times
    return msgspec.structs.replace(detail, rows=rows, gaps=gaps, low=0, high=end, end=end, merged_ns=0)


def _moved(number: int, calls: list[int], turn: int, times: int) -> int:
    """The number of a call in rows that are `times` as long."""
    before = 0
    for length in calls:
        if number <= before + length:
            return before * times + turn * length + (number - before)
        before += length
    raise AssertionError(f"no call {number}")
