"""Loads of an inner loop that fetch the same in every round of the outer one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.features.patterns.repeated_loads import repeated_loads


@pytest.mark.parametrize(
    ("case", "rounds", "words", "uses", "differs"),
    [
        ("levels.each", 32, 64, 1, True),  # 64 values against 32 levels
        ("levels.eight", 4, 64, 8, True),
        ("centroids.each", 32, 16, 1, True),
        ("ldg32_l2.slow", 8, 15.5, 1, False),  # a sum of the same words, eight times
    ],
)
def test_found(
    case: str, rounds: float, words: float, uses: float, differs: bool, facts: Callable[[str], Facts]
) -> None:
    code = facts(case).code
    assert code is not None
    (found,) = repeated_loads(code)
    assert (found.rounds, found.words, found.uses) == pytest.approx((rounds, words, uses), rel=0.05)
    assert found.differs == differs and found.apart


@pytest.mark.parametrize(
    "case",
    ["sgemm.naive", "softmax_rows.threepass", "csr.thread", "kahan.one", "gemm_f32.vector", "list_walk.serial"],
)
def test_not_found(case: str, facts: Callable[[str], Facts]) -> None:
    """Pointers that go on, tiles that are refilled, addresses that were loaded."""
    code = facts(case).code
    assert code is not None and not repeated_loads(code)
