"""A root that is only compared needs no root (CMP204): SASS of our own, nvcc 13.0, sm_90."""

from __future__ import annotations

import pytest

from kscope.features.patterns.accurate_math import accurate_calls
from kscope.features.sass.listing import Listing
from kscope.model.contract.analysis import Estimate
from kscope.rules._shared.math_calls import Spent, _compared
from kscope.rules.compute.slow_math_functions import SQUARES, _advice, _flagged, _told
from tests.features.listings import program

# n[i] = sqrtf(x * x + y * y) < r, and what is made of the comparison.
ROOT = """
0x80 LDG.E.64 R4, desc[UR4][R4.64]
0x90 BSSY B0, 0x190
0xa0 FMUL R3, R5, R5
0xb0 FFMA R0, R4, R4, R3
0xc0 MUFU.RSQ R3, R0
0xd0 IADD3 R6, R0, -0xd000000, RZ
0xe0 ISETP.GT.U32.AND P0, PT, R6, 0x727fffff, PT
0xf0 @!P0 BRA 0x140
0x100 MOV R8, 0x120
0x110 CALL.REL.NOINC 0x200
0x120 MOV R0, R3
0x130 BRA 0x180
0x140 FMUL.FTZ R5, R0, R3
0x150 FMUL.FTZ R3, R3, 0.5
0x160 FFMA R0, -R5, R5, R0
0x170 FFMA R0, R0, R3, R5
0x180 BSYNC B0
0x190 LDC.64 R4, c[0x0][0x218]
0x1a0 ULDC UR6, c[0x0][0x220]
0x1b0 FSETP.GEU.AND P0, PT, R0, UR6, PT
0x1c0 IMAD.WIDE R2, R2, 0x4, R4
0x1d0 {then}
0x1e0 STG.E desc[UR4][R2.64], R5
0x1f0 EXIT
0x200 LOP3.LUT P0, RZ, R0, 0x7fffffff, RZ, 0xc0, !PT
0x210 @!P0 MOV R3, R0
0x340 MOV R4, R8
0x350 RET.REL.NODEC R4 0x0
"""


@pytest.mark.parametrize(
    ("then", "only"),
    [("SEL R5, RZ, 0x1, P0", True), ("MOV R9, R0\n0x1d4 SEL R5, RZ, 0x1, P0", True),
     ("FSEL R5, R0, UR6, !P0", False), ("FADD R5, R0, 1", False)],
)  # fmt: skip
def test_a_root_that_is_compared_and_nothing_else(then: str, only: bool) -> None:
    code = Listing(program(ROOT.format(then=then)), "test")
    (call,) = accurate_calls(code)
    assert call.function == "square root"
    assert _compared(code, call) is only


def test_squares_are_told_where_most_roots_are_only_compared() -> None:
    alone = Estimate(speedup=2.0, low=1.2, high=3.0, capped_by="issue slots", kind="modelled")
    few, most = (Spent("square root", 100.0, [], 1000.0, 100.0, compared=n) for n in (20.0, 80.0))
    assert _advice(None, most) == SQUARES and not _flagged(most)  # type: ignore[arg-type]
    assert "rsqrtf" in _advice(None, few) and _flagged(few)  # type: ignore[arg-type]
    assert "(80 % only compared)" in _told(most, alone)
