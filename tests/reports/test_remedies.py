"""Ways beside the fix, those that do not apply, and the place in the order: in every report that shows suggestions."""

from __future__ import annotations

import pytest
from msgspec import structs

from kscope.model.contract.analysis import Analysis, Estimate, Remedy
from kscope.reports import render
from kscope.reports.phrases.remedies import remedy
from tests.reports.sample import HOSTILE, analysis

WAY = Remedy(
    step="a warp a row", applies=True, why="rows are long",
    estimate=Estimate(speedup=2.1, low=1.2, high=3.0, capped_by="L2", kind="modelled"),
)  # fmt: skip
AGAINST = Remedy(step="unroll the loop", applies=False, why="the loads are in no loop")


def given(*ways: Remedy, order: str = "") -> Analysis:
    whole = analysis()
    kernel = whole.kernels[0]
    first = structs.replace(kernel.findings[0], remedies=list(ways), order=order)
    changed = structs.replace(kernel, findings=[first, *kernel.findings[1:]])
    return structs.replace(whole, kernels=[changed, *whole.kernels[1:]])


def test_words() -> None:
    assert remedy(WAY) == "a warp a row, 2.1x: rows are long"
    assert remedy(AGAINST) == "unroll the loop: the loads are in no loop"
    assert remedy(Remedy(step="smaller blocks", applies=True)) == "smaller blocks"


@pytest.mark.parametrize("kind", ["text", "md", "llm"])
def test_what_applies_and_what_does_not_is_told_apart(kind: str) -> None:
    shown = " ".join(render(kind, given(WAY, AGAINST, order="before LAT302: surer")).split())
    either, neither = shown.index("a warp a row, 2.1x"), shown.index("unroll the loop: the loads are in no loop")
    assert shown[:either].rstrip(" :*").endswith("or") and shown[:neither].rstrip(" :*").endswith("not")
    assert "before LAT302: surer" in shown
    assert "before LAT302: surer" not in " ".join(render(kind, given(WAY)).split())


@pytest.mark.parametrize("kind", ["text", "md", "llm"])
def test_a_hostile_step_stays_text(kind: str) -> None:
    shown = render(kind, given(Remedy(step=HOSTILE, applies=False, why=HOSTILE), order=HOSTILE))
    assert "\x1b" not in shown and "\r" not in shown and "\u202e" not in shown
    assert kind == "text" or "</script>" not in shown, "a terminal knows no tags"
