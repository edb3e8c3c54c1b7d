"""Collectives of several recordings found in one another: clocks, beginnings and communicators that differ."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.features.timeline.communication.communication import Sent
from kscope.features.timeline.jobs.ranks import Table, match
from kscope.model.columns import Column, column

Group = tuple[str, tuple[int, ...], int]


def table(number: int, start: Column, end: Column, groups: list[Group], group: Column, origin: int = 0) -> Table:
    zero = np.zeros(len(start), dtype=np.int64)
    sent = Sent(
        op=zero, start=start, end=end, what=zero, kernel=zero, group=group, bytes=zero, peer=zero - 1, device=zero,
        step=zero, exposed=zero, kinds=("all_reduce",), kernels=("ncclDevKernel_AllReduce",), groups=tuple(groups),
    )  # fmt: skip
    return Table(number, origin, sent, -(1 << 60), 1 << 60)


@given(
    st.integers(0, 2**32), st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=5), st.integers(0, 6),
    st.booleans(),
)  # fmt: skip
def test_waits_whatever_the_clocks(seed: int, clocks: list[int], dropped: int, known: bool) -> None:
    """Ranks arrive up to 30 us apart, and are through within 2 us of one another; each clock is off, and each recording
    but the first lacks some of the first collectives. origins: the same where known, so that clocks are compared."""
    random = np.random.default_rng(seed)
    count = 80
    begin = np.cumsum(random.integers(60_000, 400_000, count))
    offsets = [0, *([c % 3_000 for c in clocks] if known else clocks)]
    arrive = begin + random.integers(0, 30_000, (len(offsets), count))
    ends = begin + 50_000 + random.integers(0, 2_000, (len(offsets), count))
    ranks = tuple(range(len(offsets)))
    tables = []
    for r, o in enumerate(offsets):
        cut = dropped * (r > 0)
        none = np.zeros(count - cut, dtype=np.int64)
        groups: list[Group] = [("0", ranks, len(ranks))]
        tables.append(table(r, arrive[r][cut:] + o, ends[r][cut:] + o, groups, none, int(known)))
    found = match(tables)
    assert len(found) == count - dropped
    assert np.abs(found.clock - np.array(offsets)).max() <= 1_000
    order = np.argsort(found.rows[:, 0])
    late = arrive.max(axis=0)[dropped:]
    assert np.abs(found.wait[order].T - (late - arrive[:, dropped:])).max() <= 2_000
    assert (found.wait >= 0).all()


def test_communicators_are_not_mixed() -> None:
    """Pairs (0, 1) and (2, 3) of the same name, and one of all four: each collective is found where it was."""
    begin = np.arange(40) * 100_000
    tables = []
    for rank in range(4):
        groups: list[Group] = [("0", (0, 1, 2, 3), 4), ("1", (0, 1) if rank < 2 else (2, 3), 2)]
        mine = begin + 1_000 * rank
        tables.append(table(rank, mine, begin + 50_000, groups, column([i % 2 for i in range(40)])))
    found = match(tables)
    taking = (found.rows >= 0).sum(axis=1)
    assert sorted(taking.tolist()) == [2] * 40 + [4] * 20
    of_pairs = found.rows[taking == 2]
    assert all({0, 1} == set(np.flatnonzero(row >= 0)) or {2, 3} == set(np.flatnonzero(row >= 0)) for row in of_pairs)
    assert found.clock.tolist() == [0, 0, 0, 0]
    assert found.wait[taking == 4].max(axis=0).tolist() == [3_000, 2_000, 1_000, 0]


@pytest.mark.parametrize("shift", [0, 7])
def test_what_does_not_fit_is_left_alone(shift: int) -> None:
    """Another number of collectives of other kernels: nothing is matched by force."""
    begin = np.arange(30) * 100_000
    one = table(0, begin, begin + 10, [("0", (0, 1), 2)], column([0] * 30))
    other = table(1, begin + shift, begin + shift + 10, [("0", (0, 1), 2)], column([0] * 30))
    sent = other.sent
    renamed = Sent(**{f: getattr(sent, f) for f in sent.__struct_fields__} | {"kernels": ("ncclDevKernel_Broadcast",)})
    assert len(match([one, Table(1, 0, renamed, other.low, other.high)])) == 0
