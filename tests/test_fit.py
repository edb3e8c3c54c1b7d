"""tools/fit.py: constants and rates are replaced for a while only, and a family that is left out is not seen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kscope.arch import table
from kscope.arch.estimates import constants
from kscope.rules.latency import exposed_memory_latency
from tests.support.reports import FIXTURES

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import fit

CONSTANT = "kscope.rules.latency.exposed_memory_latency.AHEAD"


@pytest.fixture(scope="module")
def cases() -> list[fit.Case]:
    names = ("bank_conflict.fast", "bank_conflict.slow", "uncoalesced.slow", "uncoalesced.fast", "tail_effect.slow",
             "tail_effect.fast", "narrow_loads.slow", "narrow_loads.fast")  # fmt: skip
    return fit.load(FIXTURES, names)


def test_using_restores(cases: list[fit.Case]) -> None:
    rate, smooth = table("units")["dram"]["attainable"], constants().smooth
    with fit.using(("estimates.smooth", 9.0), {"dram": 0.5}):
        assert (constants().smooth, table("units")["dram"]["attainable"]) == (9.0, 0.5)
    assert (constants().smooth, table("units")["dram"]["attainable"]) == (smooth, rate)


def test_using_restores_the_constants_of_modules() -> None:
    with fit.using((CONSTANT, 9.0)):
        assert exposed_memory_latency.AHEAD == 9.0
    assert exposed_memory_latency.AHEAD == 4.0


def test_a_family_is_judged_without_itself(cases: list[fit.Case], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "VALUES", {"estimates.yields": (0.75, 1.0)})
    found = fit.fit(cases)
    assert found.families == 4
    assert set(found.tried) == {"estimates.yields"}
    assert list(found.tried[next(iter(found.tried))]) == [1.0]
    assert found.in_sample["cases"] == found.left_out["cases"] == len([c for c in cases if c.label])
    # The streaming sum shows the highest rate of device memory; without its family the rate is lower.
    as_is, seen, without = found.measured["dram"]
    assert without < seen and abs(as_is - seen) < 0.05
    assert any("fitted without the family" in line for line in fit.report(found))


def test_families() -> None:
    assert fit.family("sgemm.naive") == fit.family("gemm_bf16.mma") == fit.family("triton_matmul.stage1")
    assert fit.family("tail_effect.slow") != fit.family("small_grid.slow")
