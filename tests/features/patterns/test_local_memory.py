"""Arrays in local memory: what goes with them when the loops that index them are unrolled."""

from __future__ import annotations

import pytest

from kscope.features.patterns.local_memory import counted, local_accesses
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
