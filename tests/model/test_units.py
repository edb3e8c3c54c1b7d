"""Numbers as people read them."""

from __future__ import annotations

import pytest

from kscope.model.units import figure


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0213, "0.0213"), (12.49, "12.5"), (999.4, "999"), (999.6, "1,000"), (1537.2, "1,537"),
     (2097152.0, "2.1 million"), (5.991e9, "5.99 billion"), (3e13, "3e+13"),
     (0.0, "0"), (4.0, "4"), (float("inf"), "inf"), (1e-9, "1e-09")],
)  # fmt: skip
def test_figures_have_no_exponent_that_nobody_needs(value: float, text: str) -> None:
    assert figure(value) == text
