"""The tile of a product on tensor cores, from the bytes that it asks for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.counters.product_tile import WIDEST
from kscope.features.facts import Facts


@pytest.mark.parametrize("case", ["ws_gemm.best", "gemm_bf16.wgmma", "wgmma_gemm.unspecialised"])
def test_the_side_is_the_one_of_the_source(case: str, facts: Callable[[str], Facts]) -> None:
    """All three compute 128 x 256 results a block from bulk copies, which are counted byte by byte."""
    found = facts(case).counters.product_tile
    assert found is not None
    assert found.side == pytest.approx(WIDEST, rel=0.01)
    assert found.better == pytest.approx(found.side) and found.kept == pytest.approx(1.0)


def test_small_fragments_ask_for_more(facts: Callable[[str], Facts]) -> None:
    found = facts("hgemm.wmma_padded").counters.product_tile
    assert found is not None and found.side < 100 and 0.5 < found.kept < 0.8


@pytest.mark.parametrize("case", ["sgemm.tiled", "dram_bound.triad"])
def test_no_tensor_cores_no_tile(case: str, facts: Callable[[str], Facts]) -> None:
    assert facts(case).counters.product_tile is None
