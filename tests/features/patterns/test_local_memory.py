"""Arrays in local memory: what goes with them when the loops that index them are unrolled."""

from __future__ import annotations

import pytest

from kscope.features.patterns.local_memory import copied, counted, local_accesses
from kscope.features.sass.listing import Listing
from tests.features.listings import program

# for (q < n) v[q] = x[q * 65536 + t];  for (q < n) a += v[q] * w[q * 3];  with w in constant memory; nvcc 13.0, sm_90a
RUN_TIME_LENGTH = """
0x0 LDC R1, c[0x0][0x28]
0x10 S2R R5, SR_CTAID.X
0x20 ULDC UR8, c[0x0][0x220]
0x30 ULDC.64 UR6, c[0x0][0x208]
0x40 ISETP.LT.AND P0, PT, RZ, UR8, PT
0x50 S2R R0, SR_TID.X
0x60 VIADD R1, R1, 0xffffffe0
0x70 @!P0 IMAD.MOV.U32 R7, RZ, RZ, RZ
0x80 LEA R5, R5, R0, 0x8
0x90 @!P0 BRA 0x240
0xa0 LDC.64 R2, c[0x0][0x210]
0xb0 MOV R0, R1
0xc0 HFMA2.MMA R4, -RZ, RZ, 0, 0
0xd0 IMAD.MOV.U32 R7, RZ, RZ, R0
0xe0 IMAD.WIDE R2, R5, 0x4, R2
0xf0 IMAD.MOV.U32 R6, RZ, RZ, R2
0x100 MOV R2, R6
0x110 LDG.E.CONSTANT R2, desc[UR6][R2.64]
0x120 VIADD R4, R4, 0x1
0x130 IADD3 R6, P1, R6, 0x40000, RZ
0x140 ISETP.GE.AND P0, PT, R4, UR8, PT
0x150 IADD3.X R3, RZ, R3, RZ, P1, !PT
0x160 STL [R7], R2
0x170 VIADD R7, R7, 0x4
0x180 @!P0 BRA 0x100
0x190 MOV R7, RZ
0x1a0 IMAD.MOV.U32 R2, RZ, RZ, RZ
0x1b0 UMOV UR4, URZ
0x1c0 LDL R4, [R0]
0x1d0 IADD3 R2, R2, 0x1, RZ
0x1e0 ULDC UR5, c[0x3][UR4]
0x1f0 UIADD3 UR4, UR4, 0xc, URZ
0x200 ISETP.GE.AND P0, PT, R2, UR8, PT
0x210 VIADD R0, R0, 0x4
0x220 FFMA R7, R4, UR5, R7
0x230 @!P0 BRA 0x1c0
0x240 LDC.64 R2, c[0x0][0x218]
0x250 IMAD.WIDE R2, R5, 0x4, R2
0x260 STG.E desc[UR6][R2.64], R7
0x270 EXIT
"""


def names(code: Listing, indices: list[int]) -> list[str]:
    return [code[i].name for i in indices]


def test_counters_tests_and_picked_constants_go_with_the_loops() -> None:
    """The pointer into global memory stays, and so does the arithmetic."""
    code = Listing(program(RUN_TIME_LENGTH))
    gone = names(code, counted(code, local_accesses(code)))
    assert gone.count("BRA") == 2 and gone.count("ULDC") == 1
    assert not {"LDG.E.CONSTANT", "IADD3.X", "FFMA", "STL", "LDL"} & set(gone)


@pytest.mark.parametrize(
    ("was", "would"),
    [
        ("0x1c0 LDL R4, [R0]", "0x1c0 LDL R4, [R7]"),  # the sum so far says which element
        ("0x140 ISETP.GE.AND P0, PT, R4, UR8, PT", "0x140 ISETP.GE.AND P0, PT, R2, UR8, PT"),  # it ends where data say
    ],
)
def test_no_unrolling_makes_indices_of_loaded_data_constant(was: str, would: str) -> None:
    assert was in RUN_TIME_LENGTH
    code = Listing(program(RUN_TIME_LENGTH.replace(was, would)))
    assert counted(code, local_accesses(code)) == []


# for (d = s.dims - 1; d >= 0; d--) { at += (left & s.size[d]) * s.step[d]; left /= 2; } y[t] = x[at];  with struct
# { int dims, size[8], step[8]; } s as a parameter by value; nvcc 13.0, sm_90a (some of the words left out)
PARAMETERS = """
0x0 LDC R1, c[0x0][0x28]
0x10 LDC.64 R6, c[0x0][0x230]
0x20 S2R R0, SR_CTAID.X
0x30 VIADD R1, R1, 0xffffffb8
0x40 ULDC.64 UR4, c[0x0][0x220]
0x50 S2R R19, SR_TID.X
0x60 IMAD.U32 R2, RZ, RZ, UR4
0x70 IMAD.U32 R3, RZ, RZ, UR5
0x90 STL.64 [R1+0x10], R6
0xc0 IMAD R0, R0, 0x100, R19
0x110 LDC R18, c[0x0][0x260]
0x150 STL.64 [R1], R2
0x170 STL [R1+0x40], R18
0x190 CS2R R4, SRZ
0x1b0 IMAD R3, R2.reuse, 0x4, R1
0x1c0 MOV R5, R0
0x1f0 VIADD R8, R3, 0x20
0x200 LDL R6, [R8+-0x20]
0x210 LDL R7, [R8]
0x220 VIADD R2, R2, 0xffffffff
0x230 ISETP.GT.AND P0, PT, R2, 0x1, PT
0x240 IADD3 R8, R8, -0x4, RZ
0x250 LOP3.LUT R3, R6, R5.reuse, RZ, 0xc0, !PT
0x260 LEA.HI R5, R5, R5, RZ, 0x1
0x270 IMAD R4, R3, R7, R4
0x280 SHF.R.S32.HI R5, RZ, 0x1, R5
0x290 @P0 BRA 0x200
0x2a0 EXIT
"""


@pytest.mark.parametrize(
    ("was", "would", "is_"),
    [
        ("", "", True),
        ("IMAD R3, R2.reuse, 0x4, R1", "IMAD R3, R19, 0x4, R1", False),  # each lane reads a member of its own
        ("LDC R18, c[0x0][0x260]", "IADD3 R18, R19, 0x1, RZ", False),  # a value of the thread's
        ("LDC R18, c[0x0][0x260]", "LDC R18, c[0x3][0x260]", False),  # a table of the compiler's
        ("LDC R18, c[0x0][0x260]", "LDC R18, c[0x0][0x0]", False),  # the block's size is no parameter
        ("LDL R7, [R8]", "LDL R7, [R1+0x8]", False),  # what it knows it would have read in place
        ("IADD3 R8, R8, -0x4, RZ", "IADD3 R8, R8, R6, RZ", True),  # a member says where the next one is
    ],
)
def test_parameters_that_code_picks_from_are_copied(was: str, would: str, is_: bool) -> None:
    assert was in PARAMETERS
    code = Listing(program(PARAMETERS.replace(was, would) if was else PARAMETERS))
    assert copied(code, local_accesses(code)) is is_
