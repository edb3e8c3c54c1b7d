"""MEM101 says what to do about the walk that the code takes, and nothing of rows where there is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.model.analysis import Finding
from kscope.rules._shared.layouts import FIX, PRODUCT, ROW, SWAPPED
from kscope.rules.registry import rule


def found(code: str, facts: Facts) -> Finding:
    outcome = rule(code)().run(facts)  # type: ignore[attr-defined]
    assert isinstance(outcome, Finding)
    return outcome


@pytest.mark.parametrize(
    ("case", "layout"),
    [
        ("uncoalesced.slow", ROW),
        ("triton_rowsum.down", ROW),
        ("csr.thread", ROW),  # rows start where loaded data says, and then go on
        ("sgemm.naive", SWAPPED),  # a warp a row would do each row again for every column
        ("gemm_f32.naive", SWAPPED),
        ("particles.aos", ""),
        ("qk.float", ""),  # rows of a tile on its way into shared memory: few wait for them
    ],
)
def test_the_fix_follows_the_walk(case: str, layout: str, facts: Callable[[str], Facts]) -> None:
    finding = found("MEM101", facts(case))
    assert finding.fix == FIX[layout]
    assert ("row" in finding.title) == (layout == ROW)
    assert PRODUCT not in (layout,), "no capture of ours walks both factors of a product"


@pytest.mark.parametrize("case", ["bank_conflict.slow", "gemm_f32.reg2d"])
def test_a_conflict_of_rows_is_padded_one_of_pieces_is_not(case: str, facts: Callable[[str], Facts]) -> None:
    """A column of a 32-wide tile wants a pad; two vectors of a lane side by side want to lie a warp apart."""
    finding = found("MEM103", facts(case))
    assert finding.fix.startswith("pad the row" if case == "bank_conflict.slow" else "neighbouring lanes on")
