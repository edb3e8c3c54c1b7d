"""Frechet bounds and what makes their point better."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kscope.features.specialized.coverage import covered

SHARES = st.floats(0, 1)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_the_bounds_hold_however_the_two_lie(bins: list[tuple[bool, bool]]) -> None:
    """Any pattern of waiting and busy bins: its true overlap is inside."""
    n = len(bins)
    wait, busy = sum(w for w, _ in bins) / n, sum(b for _, b in bins) / n
    truth = sum(w and b for w, b in bins) / n
    found = covered(wait, busy)
    assert found.low - 1e-9 <= truth <= found.high + 1e-9
    assert found.low <= found.point <= found.high


@given(SHARES, SHARES, SHARES)
def test_a_point_stays_within_the_bounds(wait: float, busy: float, point: float) -> None:
    found = covered(wait, busy, point)
    assert found.low <= found.point <= found.high


def test_waiting_for_products_keeps_them_in_flight() -> None:
    found = covered(0.6, 0.7, 0.6)
    assert found.point == 0.6 and found.high == 0.6
    assert 0.29 < found.low < 0.31
    inside = covered(0.6, 0.5, 0.6, within=0.8)  # no more than the unit works
    assert inside.point == inside.high == 0.5 and 0.29 < inside.low < 0.31
