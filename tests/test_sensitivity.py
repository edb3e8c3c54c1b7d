"""tools/sensitivity.py: constants are replaced for a while, wherever they are known, and what that moves is seen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kscope.arch.estimates import constants
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.counters import traffic
from kscope.features.facts import SECTOR
from tests.support import reduced

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import sensitivity

CASES = ("bank_conflict.slow", "tail_effect.slow")


def test_what_a_constant_moves_is_seen() -> None:
    settings = [("estimates.low", 0.8), ("estimates.idle_sms", 0.2), ("estimates.few_blocks", 0.25)]
    low, idle, few = sensitivity.moves(CASES, settings)
    assert low.gains == ["bank_conflict.slow", "tail_effect.slow"] and low.verdict == []
    assert idle.verdict == ["tail_effect.slow"] and idle.gains == []
    assert few == sensitivity.Moves()
    page = sensitivity.page(settings, [low, idle, few], 2)
    assert "Move nothing on these 2 captures: few_blocks." in page


@pytest.mark.parametrize(
    ("name", "other", "collected", "case"),
    [
        ("few_blocks", 0.001, "memory", "gated.serial"),
        ("few_blocks", 1000.0, "compute", "adam.step"),
        ("waits_clear", 0.15, "states", "dwconv.one"),
        ("waits_clear", 0.27, "source", "quotients.divided"),
    ],
)
def test_what_only_reports_with_few_sections_need(name: str, other: float, collected: str, case: str) -> None:
    def verdict() -> tuple[str, str | None]:
        found = analyze_kernel(reduced.reduced(sensitivity.kernel_of(case), collected), case).verdict
        return found.regime, found.limiter

    now = verdict()
    with sensitivity.using(f"estimates.{name}", other):
        assert verdict() != now


@pytest.mark.parametrize(
    ("name", "other", "case"),
    [
        ("waits_name", 0.02, "groupby_f64.shared"),
        ("waits_name", 0.5, "triton_deep.split16"),
        ("waits_name", 0.95, "wgmma_flight.each"),
    ],
)
def test_what_captures_hold_from_afar(name: str, other: float, case: str) -> None:
    """No capture lies so near that a quarter more or less moved it."""

    def limiter() -> str | None:
        return analyze_kernel(sensitivity.kernel_of(case), case).verdict.limiter

    now = limiter()
    with sensitivity.using(f"estimates.{name}", other):
        assert limiter() != now


def test_a_constant_is_put_back() -> None:
    now = constants().smooth
    with sensitivity.using("estimates.smooth", 9.0):
        assert constants().smooth == 9.0
    assert constants().smooth == now


def test_modules_that_imported_a_constant_have_the_other_value_too() -> None:
    facts = sys.modules["kscope.features.facts"]
    with sensitivity.using("kscope.features.counters.traffic.SECTOR", 64):
        assert (traffic.SECTOR, facts.SECTOR) == (64, 64)
    assert (traffic.SECTOR, facts.SECTOR) == (32, 32) and SECTOR == 32


def test_values_keep_their_order_and_their_kind() -> None:
    near, at = constants().near, constants().at
    assert all(v < at for v in sensitivity.tried("estimates.near"))
    assert all(v > near for v in sensitivity.tried("estimates.at"))
    assert sensitivity.tried("kscope.features.counters.traffic.SECTOR") == [16, 64]
    assert sensitivity.tried("estimates.as_full") == [0.9 * 3 / 4, 1.0]
    assert sensitivity.tried("estimates.start") == [500.0, 2000.0]


def test_constants_of_modules_are_found() -> None:
    found = list(sensitivity.named())
    assert "kscope.rules.memory.sector_promotion.MORE" in found and len(found) == len(set(found)) > 100
