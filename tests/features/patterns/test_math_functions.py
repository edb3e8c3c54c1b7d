"""Math functions that give themselves away in the code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.features.patterns.math_functions import math_calls, powers
from kscope.features.sass.listing import Listing
from tests.features.listings import program

# y[i] = powf(x[i], 12), compiled for sm_90 by nvcc 13.0.
POWF = """
0x0 LDC R1, c[0x0][0x28]
0x10 S2R R0, SR_TID.X
0x20 LDC.64 R2, c[0x0][0x210]
0x30 ULDC.64 UR4, c[0x0][0x208]
0x40 IMAD.WIDE.U32 R2, R0, 0x4, R2
0x50 LDG.E R2, desc[UR4][R2.64]
0x60 HFMA2.MMA R9, -RZ, RZ, 0.771484375, 0.21533203125
0x70 BSSY B0, 0x500
0x80 FMUL R5, |R2|.reuse, 16777216
0x90 FSETP.GEU.AND P0, PT, |R2|.reuse, 1.175494350822287508e-38, PT
0xa0 FSETP.NEU.AND P2, PT, R2, 1, PT
0xb0 FSEL R5, R5, |R2|, !P0
0xc0 FSEL R3, RZ, -24, P0
0xd0 IADD3 R4, R5, -0x3f3504f3, RZ
0xe0 LOP3.LUT R4, R4, 0xff800000, RZ, 0xc0, !PT
0xf0 IADD3 R5, R5, -R4.reuse, RZ
0x100 I2FP.F32.S32 R4, R4
0x110 FADD R6, R5.reuse, 1
0x120 FADD R5, R5, -1
0x130 FFMA R3, R4, 1.1920928955078125e-07, R3
0x140 FADD R7, R5, R5
0x150 MUFU.RCP R6, R6
0x160 FMUL R8, R6, R7
0x170 FADD R7, R5, -R8
0x180 FMUL R4, R8.reuse, R8.reuse
0x190 FFMA R12, R8, 1.4426950216293334961, R3
0x1a0 FADD R10, R7, R7
0x1b0 FFMA R7, R4.reuse, R9, 0.0032181653659790754318
0x1c0 FADD R3, R3, -R12
0x1d0 FFMA R5, R5, -R8, R10
0x1e0 FFMA R7, R4, R7, 0.018033718690276145935
0x1f0 FFMA R10, R8, 1.4426950216293334961, R3
0x200 FMUL R5, R6, R5
0x210 FFMA R7, R4, R7, 0.12022458761930465698
0x220 FFMA R3, R5, 1.4426950216293334961, R10
0x230 FMUL R7, R4, R7
0x240 FFMA R4, R8, 1.9251366722983220825e-08, R3
0x250 FMUL R3, R7, 3
0x260 FFMA R4, R5, R3, R4
0x270 FFMA R7, R8, R7, R4
0x280 MOV R8, 0x391fcb8e
0x290 FADD R3, R12, R7
0x2a0 FMUL R4, R3, 12
0x2b0 FADD R12, -R12, R3
0x2c0 FRND R5, R4
0x2d0 FADD R12, R7, -R12
0x2e0 FFMA R3, R3, 12, -R4
0x2f0 FSETP.GEU.AND P1, PT, R4, RZ, PT
0x300 FFMA R3, R12, 12, R3
0x310 F2I.NTZ R7, R4
0x320 FADD R6, R4, -R5
0x330 FSETP.GT.AND P0, PT, R5, RZ, PT
0x340 FADD R3, R3, R6
0x350 FFMA R6, R3.reuse, R8, 0.0013391353422775864601
0x360 SEL R8, RZ, 0x83000000, P0
0x370 FSETP.GT.AND P0, PT, |R4|, 152, PT
0x380 FFMA R6, R3, R6, 0.0096188392490148544312
0x390 IADD3 R5, R8, 0x7f000000, RZ
0x3a0 LEA R8, R7, -R8, 0x17
0x3b0 FFMA R6, R3, R6, 0.055503588169813156128
0x3c0 HFMA2.MMA R7, -RZ, RZ, 1.875, 0
0x3d0 FFMA R6, R3, R6, 0.24022644758224487305
0x3e0 FFMA R6, R3, R6, 0.69314718246459960938
0x3f0 FFMA R6, R3, R6, 1
0x400 FMUL R5, R6, R5
0x410 FMUL R5, R5, R8
0x420 @P0 FSEL R5, RZ, +INF , !P1
0x430 @!P2 BRA 0x4f0
0x440 FSETP.GTU.AND P0, PT, |R2|, +INF , PT
0x450 @P0 BRA 0x4e0
0x460 FSETP.NEU.AND P0, PT, |R2|, +INF , PT
0x470 FSETP.EQ.OR P0, PT, R2, RZ, !P0
0x480 @P0 BRA 0x4b0
0x490 MOV R7, R5
0x4a0 BRA 0x4f0
0x4b0 FADD R2, R2, R2
0x4c0 LOP3.LUT R7, R2, 0x7fffffff, RZ, 0xc0, !PT
0x4d0 BRA 0x4f0
0x4e0 FADD R7, R2, 12
0x4f0 BSYNC B0
0x500 ULDC.64 UR6, c[0x0][0x218]
0x510 LEA R2, P0, R0, UR6, 0x2
0x520 LEA.HI.X R3, R0, UR7, RZ, 0x2, P0
0x530 STG.E desc[UR4][R2.64], R7
0x540 EXIT
"""


def listing(text: str) -> Listing:
    return Listing(program(text), "test")


def test_powf_is_one_call_with_its_exponent() -> None:
    code = listing(POWF)
    (power,) = powers(code)
    assert power.exponent == 12.0 and power.multiplies
    assert power.seeds == set(math_calls(code)), "reciprocal, range reductions and scaling are all parts of it"


@pytest.mark.parametrize(
    ("factor", "exponent", "multiplies"), [("2.5", 2.5, True), ("0.3", 0.3, False), ("1000", 1000.0, False)]
)
def test_other_exponents(factor: str, exponent: float, multiplies: bool) -> None:
    (power,) = powers(listing(POWF.replace(" 12\n", f" {factor}\n")))
    assert power.exponent == exponent and power.multiplies == multiplies


def test_an_exponent_that_is_no_constant() -> None:
    (power,) = powers(listing(POWF.replace(" 12\n", " R44\n")))
    assert power.exponent is None and not power.multiplies


def test_code_without_powf_has_none() -> None:
    assert powers(listing("\n".join(line for line in POWF.splitlines() if "0.0013391" not in line and line))) == []


def test_calls_of_a_capture(facts: Callable[[str], Facts]) -> None:
    code = facts("mie.powf").code
    assert code is not None
    assert sorted(p.exponent or 0.0 for p in powers(code)) == [6.0] * 4 + [12.0] * 4, (
        "two in a loop unrolled four times"
    )
