"""Columns of millions of rows: what is done to them fast, and block by block, is what plain Python does."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median as plain_median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.engine.timelines.timeline import analyze_view
from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.operations import intervals
from kscope.features.timeline.operations import medians as facts
from kscope.features.timeline.operations.intervals import covered, places, union
from kscope.model import columns
from kscope.model.columns import (
    Column,
    by_start,
    column,
    combinations,
    combined,
    constant,
    different,
    distinct,
    in_order,
    is_constant,
    taken,
)
from kscope.parsers.timeline import kineto, nsys
from tests.support import traces

SMALL = st.lists(st.integers(-4, 9), max_size=20)
WIDE = st.lists(st.one_of(st.integers(0, 3), st.integers(-(1 << 60), 1 << 60)), max_size=20)
Rows = list[tuple[int, int]]
SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 15)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    """Blocks that these columns have several of."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_BLOCK", 3)
        yield


@given(st.one_of(SMALL, WIDE))
def test_distinct(values: list[int]) -> None:
    found, index = distinct(column(values))
    assert found.tolist() == sorted(set(values))
    assert [found[i] for i in index] == values
    assert different(column(values)).tolist() == sorted(set(values))
    assert different(constant(8, len(values))).tolist() == [8] * bool(values)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([5, 70_000, -1 << 40]), st.integers(7, 8)), max_size=20))
def test_combined(rows: list[tuple[int, int, int]]) -> None:
    one, two, three = (column([r[i] for r in rows]) for i in range(3))
    order = {row: i for i, row in enumerate(sorted(set(rows)))}
    assert combined(one, two, three, constant(1, len(rows))).tolist() == [order[r] for r in rows]
    assert combinations(one, two, three) == sorted(set(rows))


def table(rows: Rows, what: int) -> dict[str, Column]:
    start, end = column([r[0] for r in rows]), column([r[1] for r in rows])
    which = start * 100 + end + what
    same = {"same": constant(4, len(rows)), "kind": constant(what, len(rows))}
    return {"start": start, "end": end, "what": which, **same}


@given(SPANS, SPANS, SPANS, st.booleans())
def test_in_order(one: Rows, two: Rows, three: Rows, tidy: bool) -> None:
    """tidy: each table is in order, as Nsight Systems writes most."""
    parts = [table(sorted(rows) if tidy else rows, i) for i, rows in enumerate((one, two, three))]
    found = in_order([dict(p) for p in parts])
    wanted = [row for p in parts for row in zip(*(c.tolist() for c in p.values()), strict=True)]
    starts = [row[0] for row in wanted]
    if starts != sorted(starts):  # else they stay as they are
        wanted.sort(key=lambda row: row[:2])
    assert list(zip(*(found[n].tolist() for n in parts[0]), strict=True)) == wanted
    assert is_constant(found["same"]) or not wanted
    alone = by_start(parts[0])
    assert alone["start"].tolist() == sorted(parts[0]["start"].tolist())


@given(SMALL)
def test_taken(rows: list[int]) -> None:
    mask = np.array([r > 2 for r in rows], dtype=bool)
    assert taken(column(rows), mask).tolist() == [r for r in rows if r > 2]
    few = taken(constant(6, len(rows)), mask)
    assert few.tolist() == [6] * int(mask.sum())


@given(SPANS, SPANS, st.integers(0, 30), st.integers(31, 80))
def test_covered(rows: Rows, others: Rows, low: int, high: int) -> None:
    rows.sort()
    start, end = column([r[0] for r in rows]), column([r[1] for r in rows])
    assert covered(start, end, low, high) == union(start, end, low, high).length
    chosen = end % 2 == 0
    assert covered(start, end, low, high, chosen) == union(start[chosen], end[chosen], low, high).length
    cover = union(start, end)
    times = {t for a, b in rows for t in range(a, b)}
    for asked in (others, sorted((a, max(b, a)) for a, b in others), [(7 * i, 7 * i + 5) for i in range(12)]):
        for few in (0, 8):  # asked by the intervals, and by what is asked about
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(intervals, "_FEW", few)
                within = cover.within(column([a for a, _ in asked]), column([b for _, b in asked]))
                assert within.tolist() == [len(times & set(range(a, b))) for a, b in asked]
                at = column(range(-3, 90))
                assert cover.holds(at).tolist() == (cover.at(at) >= 0).tolist()


@given(SMALL, SMALL)
def test_places(known: list[int], values: list[int]) -> None:
    known.sort()
    assert places(column(known), column(values)).tolist() == [sum(k < v for k in known) for v in values]
    assert places(column(known), column(values), "right").tolist() == [sum(k <= v for k in known) for v in values]


@pytest.mark.parametrize("size", [1, 2, 999, 1000, 1001])
@pytest.mark.parametrize("most", [1, 40, 10**12])
def test_median(size: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "_MANY", 100)
    monkeypatch.setattr(facts, "_SAMPLE", 50)
    random = np.random.default_rng(size + most)
    for values in (random.integers(0, most, size), np.arange(size), np.arange(size)[::-1] * most, np.arange(size) % 3):
        assert facts.median(values) == plain_median(values.tolist())
        assert facts.median(values / 7) == np.median(values / 7)
        for share in (0.0, 0.2, 0.5, 0.95, 1.0):
            assert facts.quantile(values / 7, share) == np.quantile(values / 7, share)


@pytest.mark.parametrize("name", ["launch", "sync", "launch_bound", "graph", "pageable"])
def test_blocks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = traces.path(name)
    timeline = nsys.read(path) if ".sqlite" in path.name else kineto.read(path)
    monkeypatch.setattr(columns, "_BLOCK", 61)
    few = analyze_view(TimelineView(timeline))
    monkeypatch.setattr(columns, "_BLOCK", 1 << 30)
    assert analyze_view(TimelineView(timeline)) == few
