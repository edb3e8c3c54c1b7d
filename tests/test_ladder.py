"""The two matrix-product ladders: the next suggestion takes the next step, and the promises rank the steps."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.labels import LABELS

ROOT = Path(__file__).resolve().parents[1]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


ladder = load("ladder")
LADDERS = {
    "gemm_f32": ("naive", "coalesced", "shared", "reg1d", "reg2d", "vector"),
    "gemm_bf16": ("ffma", "mma", "swizzled"),
}
RUNGS = [f"{name}.{variant}" for name, variants in LADDERS.items() for variant in variants]


@pytest.fixture(scope="module")
def climbed() -> dict[str, Any]:
    return {rung.case: rung for rungs in ladder.climb() for rung in rungs}


def test_both_ladders_are_there(climbed: dict[str, Any]) -> None:
    assert list(climbed) == RUNGS
    assert all(rung.measured > 1.05 for rung in climbed.values()), "each rung is faster than the one before"
    page = (ROOT / "reports" / "ladder.md").read_text(encoding="utf-8")
    assert all(f"| {case.partition('.')[2]} |" in page for case in RUNGS)


@pytest.mark.parametrize("case", RUNGS)
def test_the_next_step_is_first_or_second(case: str, climbed: dict[str, Any]) -> None:
    assert climbed[case].place is not None and climbed[case].place <= 2, climbed[case]


@pytest.mark.parametrize("names", [("gemm_f32",), ("gemm_f32", "gemm_bf16")])
def test_promises_rank_the_steps(names: tuple[str, ...], climbed: dict[str, Any]) -> None:
    """Three rungs have no rank of their own: the step to mma brings bank conflicts, which no promise counts."""
    rungs = [climbed[f"{name}.{variant}"] for name in names for variant in LADDERS[name]]
    promised, measured = [r.promised for r in rungs], [r.measured for r in rungs]
    assert ladder.spearman(promised, measured) >= 0.8, (promised, measured)


@pytest.mark.parametrize("case", RUNGS)
def test_the_measured_step_lies_in_the_promised_range(case: str, climbed: dict[str, Any]) -> None:
    assert climbed[case].low <= climbed[case].measured <= climbed[case].high, climbed[case]


def test_about_a_quarter_of_the_cases_has_nothing_to_gain() -> None:
    level = [case for case, label in LABELS.items() if label.get("no_gain")]
    assert len(level) >= 15 and len(level) >= 0.21 * len(LABELS)  # pairs added since have a cause each
