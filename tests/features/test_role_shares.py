"""Shares of roles' time from a profile against what the warps of that very launch recorded (tools/validate_ws.py)."""

from __future__ import annotations

import csv
import importlib.util
import sys
import tomllib
from functools import cache
from types import ModuleType

import pytest

from tests.support.dials import DIALS
from tests.support.thorough import some

CASES = (
    "ws_gemm.best", "ws_gemm.k2048", "ws_gemm.n128_stages3", "ws_gemm.stages2", "ws_gemm.tiles2",
    "ws_gemm.epilogue_exposed", "ws_gemm.produce_exposed", "ws_gemm.one_group", "tma_scale.stages6",
)  # fmt: skip


@cache
def tool() -> ModuleType:
    folder = DIALS.parents[1] / "tools"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("validate_ws", folder / "validate_ws.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["validate_ws"] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(folder))


@pytest.mark.parametrize("case", some(CASES, 2))
def test_within_three_points_or_the_samplers_noise(case: str) -> None:
    settings = tomllib.loads((DIALS / "settings.toml").read_text(encoding="utf-8"))
    with (DIALS / "truth.csv").open(encoding="utf-8", newline="") as file:
        truth = {(row["case"], row["role"]): row for row in csv.DictReader(file)}
    cells = list(tool().compared(tool().read(DIALS / case, settings[case]), truth, recorded=True))
    assert len(cells) == (10 if case.startswith("ws_gemm") else 8)  # no unit's busy time is known in a copy
    for cell in cells:
        assert cell.error <= max(3.0, cell.noise), cell
        assert cell.inside, cell
