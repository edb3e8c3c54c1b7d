"""Gains of programs, and what is changed about an estimate; every Estimate is made in features/estimate."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from msgspec import structs

from kscope.features.estimate import gains
from kscope.model.contract.analysis import Estimate

PACKAGE = Path(__file__).resolve().parents[3] / "kscope"


def estimate(low: float, speedup: float, high: float) -> Estimate:
    return Estimate(speedup=speedup, low=low, high=high, capped_by="L2", kind="modelled")


def test_of_a_program() -> None:
    half = gains.of_program(0.5, 0.25, 0.6, "the kernels", "measured")
    assert (half.low, half.speedup, half.high) == (1.333, 2.0, 2.5)
    assert (half.capped_by, half.kind) == ("the kernels", "measured")
    turned = gains.of_program(0.5, 0.9, 0.1, "x")
    assert turned.low == turned.speedup == turned.high == 2.0, "the ends never cross the point"


@pytest.mark.parametrize(("removed", "gain"), [(-1.0, 1.0), (0.0, 1.0), (0.9, 10.0), (1.0, 1000.0), (7.0, 1000.0)])
def test_speedup_stays_finite(removed: float, gain: float) -> None:
    assert gains.speedup(removed) == gain


def test_ends_are_moved() -> None:
    one, other = estimate(1.1, 2.0, 4.0), estimate(1.5, 2.5, 3.0)
    assert gains.no_higher(one, 3.0, 0.03).high == 3.0 and gains.no_higher(one, 1.2, 0.03).high == 2.06
    assert gains.no_higher(one, 9.0, 0.03).high == one.high
    assert gains.up_to(one, other).high == 4.0 and gains.up_to(other, one).high == 4.0
    both = gains.between(one, low=other, high=other)
    assert (both.low, both.speedup, both.high) == (1.5, 2.0, 3.0)
    assert gains.between(one) == one


def test_estimates_are_made_in_one_room() -> None:
    """No other module calls Estimate(...) or replaces a field of one. (What kscope.napkin calls so is the floor of a
    problem, another type.)"""
    makers = set()
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name == "napkin" or "bench" in path.parts:  # figures of their own kinds
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                given = {k.arg for k in node.keywords}
                if name == "Estimate" or (name == "replace" and given & {"speedup", "low", "high", "capped_by"}):
                    makers.add(path.relative_to(PACKAGE).parent.as_posix())
    assert makers == {"features/estimate"}


def test_a_part_of_what_a_finding_counts_brings_a_part() -> None:
    """Half of the time that a gain of 2x takes away is 1.33x; the least that it may bring stays."""
    whole = Estimate(speedup=2.0, low=0.9, high=4.0, capped_by="issue slots", kind="modelled")
    half = gains.of_part(whole, 0.5)
    assert (half.speedup, half.low, half.high) == (pytest.approx(1.333, abs=1e-3), 0.9, pytest.approx(2.286, abs=1e-3))
    sure = gains.of_part(structs.replace(whole, low=1.5), 0.1)
    assert sure.low == pytest.approx(1 / (1 - 0.1 / 3), abs=1e-3) and sure.low < sure.speedup
    assert gains.of_part(whole, 1.0) == whole and gains.of_part(whole, 0.0).speedup == 1.0
