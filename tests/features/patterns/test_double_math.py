"""Which functions of doubles a kernel calls, and how often."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("weights.pow", {"pow": 65536, "exp": 65536, "division": 65536}),
        ("weights.root", {"exp": 65536, "square root": 65536, "division": 65536}),
        ("series_f64.base", {}),
        ("quotients.divided", {}),
    ],
)
def test_calls(case: str, expected: dict[str, float], facts: Callable[[str], Facts]) -> None:
    """65,536 warps with one element a lane; pow's own division and exponential are not counted twice."""
    assert {c.function: c.calls for c in facts(case).patterns.double_calls} == expected
