"""Divisions of halves: a reciprocal in float, a product, and a refinement of quotients that are subnormal."""

from __future__ import annotations

from kscope.features.facts import CodeFacts
from kscope.features.patterns.accurate_math import FUNCTIONS
from kscope.features.patterns.math_functions import HALVES, half_divisions
from kscope.features.sass.listing import Listing
from tests.features.listings import program

# y[2 i] = x[2 i] / d[b], y[2 i + 1] = x[2 i + 1] / d[b] of halves (nvcc 13.0, sm_90)
TWO = """
LDC R1, c[0x0][0x28]
S2R R7, SR_CTAID.X
LDC.64 R2, c[0x0][0x220]
ULDC.64 UR4, c[0x0][0x208]
S2R R0, SR_TID.X
LDC.64 R4, c[0x0][0x218]
IMAD.WIDE.U32 R2, R7.reuse, 0x2, R2
LEA R0, R7, R0, 0x8
LDG.E.U16.CONSTANT R2, desc[UR4][R2.64]
SHF.L.U32 R7, R0, 0x1, RZ
IMAD.WIDE R4, R7, 0x2, R4
LDG.E.U16.CONSTANT R0, desc[UR4][R4.64]
LDG.E.U16.CONSTANT R6, desc[UR4][R4.64+0x2]
HADD2.F32 R9, -RZ, R2.H0_H0
LDC.64 R2, c[0x0][0x210]
MUFU.RCP R11, R9
HADD2.F32 R0, -RZ, R0.H0_H0
HADD2.F32 R8, -RZ, R6.H0_H0
FMUL R6, R0, R11
FMUL R13, R11, R8
F2FP.F16.F32.PACK_AB R5, RZ, R6
IMAD.WIDE R2, R7, 0x2, R2
F2FP.F16.F32.PACK_AB R10, RZ, R13
HSETP2.GEU.AND P3, PT, |R5|.reuse.H0_H0, 8.523464202880859375e-06, 8.523464202880859375e-06, PT
HSETP2.GT.AND P2, PT, |R5|.H0_H0, RZ.H0_H0, PT
HSETP2.GEU.AND P0, PT, |R10|.reuse.H0_H0, 8.523464202880859375e-06, 8.523464202880859375e-06, PT
HSETP2.GT.AND P1, PT, |R10|.H0_H0, RZ.H0_H0, PT
PLOP3.LUT P2, PT, P3, P2, PT, 0xa2, 0x0
PLOP3.LUT P0, PT, P0, P1, PT, 0xa2, 0x0
@!P2 FFMA R0, -R9, R6, R0
@!P0 FFMA R8, -R9, R13, R8
@!P2 FFMA R0, R11, R0, R6
@!P0 FFMA R8, R11, R8, R13
@!P2 F2FP.F16.F32.PACK_AB R5, RZ, R0
@!P0 F2FP.F16.F32.PACK_AB R10, RZ, R8
STG.E.U16 desc[UR4][R2.64], R5
STG.E.U16 desc[UR4][R2.64+0x2], R10
EXIT
"""


def test_each_with_what_it_takes() -> None:
    code = Listing(program(TWO))
    first, second = half_divisions(code)
    assert first.function == HALVES and HALVES in FUNCTIONS
    assert [code[i].opcode for i in first.members] == [
        "MUFU", "FMUL", "F2FP", "HSETP2", "HSETP2", "PLOP3", "FFMA", "FFMA", "F2FP",
    ]  # fmt: skip
    assert set(first.members) & set(second.members) == {first.members[0]}  # the compiler has one reciprocal for both
    assert not first.steady  # no loop


def test_two_by_one_divisor_share_it() -> None:
    code = Listing(program(TWO))
    calls = half_divisions(code)
    assert CodeFacts(code).patterns.shared_divisors == {c.anchor for c in calls}


def test_other_tests_and_constants_are_none() -> None:
    assert half_divisions(Listing(program(TWO.replace("8.523464202880859375e-06", "8.5e-05")))) == []
    assert half_divisions(Listing(program(TWO.replace("MUFU.RCP R11, R9", "FADD R11, R9, 1")))) == []
