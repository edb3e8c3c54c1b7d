"""Loops that a block deals out to its threads, and those that only look so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.features.profile.dealt_rounds import dealt, left_with


@pytest.mark.parametrize(
    ("case", "rounds"),
    [
        ("softmax_rows.threepass", [32.0, 32.0, 32.0]),  # each of its three passes
        ("argmax.row_blocks", [64.0]),
        ("sum_roof.tree", [8.0]),
        ("steps.four", [8.0]),  # the loop that copies; not the one over tiles, in which the threads meet
    ],
)
def test_found(case: str, rounds: list[float], facts: Callable[[str], Facts]) -> None:
    f = facts(case)
    path = f.estimate.latency_floor
    assert f.code is not None and path is not None
    found = dealt(f.code, f.kernel.launch.block)
    assert list(found.values()) == pytest.approx(rounds, rel=0.05)
    half, most = (left_with(f.code, path.walk, found, n) for n in (2, 64))
    assert most < half < 1 and half >= 0.5 - 1e-9


@pytest.mark.parametrize("case", ["gemm_f32.naive", "attn.global", "row_stats.thread", "kahan.one", "pairs.rows"])
def test_not_found(case: str, facts: Callable[[str], Facts]) -> None:
    """Each thread walks a row, a column or a chain of its own."""
    f = facts(case)
    path = f.estimate.latency_floor
    assert f.code is not None and path is not None
    found = dealt(f.code, f.kernel.launch.block)
    assert not found and left_with(f.code, path.walk, found, 8) == 1
