"""What goes when instructions go: addresses, pointers that a loop carries for them, the tests that choose them."""

from __future__ import annotations

from collections.abc import Callable

from kscope.features.facts import Facts
from kscope.features.patterns.slicing import dying, feeding, purpose
from kscope.features.sass.listing import Listing
from tests.features.listings import program

RING = """
0x0 S2R R2, SR_TID.X
0x10 IADD3 R4, R4, 0x10, RZ
0x20 IADD3 R6, R4, 0x20, RZ
0x30 LDG.E R8, desc[UR6][R4.64]
0x40 LDG.E R9, desc[UR6][R6.64]
0x50 IADD3 R4, R6, 0x30, RZ
0x60 FFMA R10, R8, R9, R10
0x70 IADD3 R2, R2, -0x1, RZ
0x80 ISETP.NE.AND P0, PT, R2, RZ, PT
0x90 @P0 BRA 0x10
0xa0 STG.E desc[UR6][R12.64], R10
0xb0 EXIT
"""
DIVISION = """
0x0 ULDC UR4, c[0x0][0x220]
0x10 LOP3.LUT R0, R9, UR4, RZ, 0xfc, !PT
0x20 BSSY B0, 0xc0
0x30 ISETP.NE.U32.AND P0, PT, R0, RZ, PT
0x40 @!P0 BRA 0x60
0x50 NOP
0x60 I2F.U32.RP R3, UR4
0x70 MUFU.RCP R3, R3
0x80 VIADD R3, R3, 0xffffffe
0x90 F2I.FTZ.U32.TRUNC.NTZ R3, R3
0xa0 IMAD R4, R3, UR4, RZ
0xb0 IMAD.HI.U32 R5, R3, R4, R8
0xc0 BSYNC B0
0xd0 IMAD.WIDE R6, R5, 0x4, R10
0xe0 LDG.E R7, desc[UR6][R6.64]
0xf0 STG.E desc[UR6][R12.64], R7
0x100 EXIT
"""
SEQUENCE = range(6, 12)
# y is 1 where x is 1, else a polynomial, or a sum where x is too large; then z is stored, for another reason.
CHOSEN = """
0x0 LDC.64 R10, c[0x0][0x210]
0x10 LDG.E R5, desc[UR6][R10.64]
0x20 FSETP.NEU.AND P0, PT, R5, 1, PT
0x30 MOV R4, 0x3f800000
0x40 @!P0 BRA 0xa0
0x50 FSETP.GTU.AND P1, PT, |R5|, +INF , PT
0x60 @P1 BRA 0x90
0x70 FFMA R4, R5, R5, 0.5
0x80 BRA 0xa0
0x90 FADD R4, R5, R5
0xa0 ISETP.NE.AND P2, PT, R9, RZ, PT
0xb0 @!P2 BRA 0xd0
0xc0 STG.E desc[UR6][R12.64], R9
0xd0 STG.E desc[UR6][R10.64], R4
0xe0 EXIT
"""
# v ^= v << 13; v ^= v >> 17; v ^= v << 5; n rounds between a load and a store
HASH = """
0x0 LDC R1, c[0x0][0x28]
0x10 S2R R5, SR_CTAID.X
0x20 LDC R4, c[0x0][0x220]
0x30 ULDC.64 UR6, c[0x0][0x208]
0x40 S2R R0, SR_TID.X
0x50 LDC.64 R2, c[0x0][0x210]
0x60 ISETP.GE.AND P0, PT, R4, 0x1, PT
0x70 IMAD R5, R5, 0x100, R0
0x80 IMAD.WIDE R2, R5, 0x4, R2
0x90 LDG.E R7, desc[UR6][R2.64]
0xa0 @!P0 BRA 0x150
0xb0 UMOV UR4, URZ
0xc0 IMAD.SHL.U32 R0, R7, 0x2000, RZ
0xd0 UIADD3 UR4, UR4, 0x1, URZ
0xe0 LOP3.LUT R0, R0, R7, RZ, 0x3c, !PT
0xf0 ISETP.LE.AND P0, PT, R4, UR4, PT
0x100 SHF.R.U32.HI R3, RZ, 0x11, R0
0x110 LOP3.LUT R3, R3, R0, RZ, 0x3c, !PT
0x120 IMAD.SHL.U32 R0, R3, 0x20, RZ
0x130 LOP3.LUT R7, R0, R3, RZ, 0x3c, !PT
0x140 @!P0 BRA 0xc0
0x150 ULDC.64 UR4, c[0x0][0x218]
0x160 SHF.R.S32.HI R0, RZ, 0x1f, R5
0x170 LEA R2, P0, R5, UR4, 0x2
0x180 LEA.HI.X R3, R5, UR5, R0, 0x2, P0
0x190 STG.E desc[UR6][R2.64], R7
0x1a0 EXIT
"""


def test_branches_that_choose_nothing_else_go_too() -> None:
    """With the polynomial and the sum both ways are empty, so their branches go, and the tests; a way on which
    something is stored stays."""
    code = Listing(program(CHOSEN))
    assert {2, 4, 5, 6} <= set(dying(code, (7, 9)))
    assert {10, 11}.isdisjoint(dying(code, (7, 9)))
    assert {4, 6}.isdisjoint(dying(code, (7,))), "the other way still does something"


def test_pointers_that_a_loop_carries_go_in_a_ring() -> None:
    code = Listing(program(RING))
    gone = feeding(code, (3, 4))
    assert {1, 2, 5} <= set(gone), "each pointer is read by the loads and by the next pointer alone"
    assert not {0, 7, 8} & set(gone), "the counter closes the loop"


def test_what_somebody_else_reads_stays() -> None:
    code = Listing(program(RING.replace("STG.E desc[UR6][R12.64], R10", "STG.E desc[UR6][R4.64], R10")))
    assert not {1, 2, 5} & set(feeding(code, (3, 4))), "the store behind the loop still wants the pointer"


def test_the_choice_of_a_short_division_goes_with_it() -> None:
    code = Listing(program(DIVISION))
    gone = set(dying(code, tuple(SEQUENCE)))
    assert {0, 1, 2, 3, 4, 12} <= gone, "the divisor, the test of the high halves, the branch and its reconvergence"
    assert not {13, 14, 15} & gone, "the quotient's use stays"


def test_a_region_that_reads_memory_stays() -> None:
    code = Listing(program(DIVISION.replace("0x50 NOP", "0x50 LDG.E R20, desc[UR6][R2.64]")))
    assert not {2, 4, 12} & set(dying(code, tuple(SEQUENCE)))


def test_64_bit_divisions_take_more_than_their_arithmetic(facts: Callable[[str], Facts]) -> None:
    from kscope.features.patterns.math_functions import integer_divisions
    from kscope.features.patterns.slicing import computation

    code = facts("swap_heads.division").code
    assert code is not None
    members = computation(code, tuple(integer_divisions(code)))
    assert code.issue_share(dying(code, tuple(members))) > code.issue_share(members) + 0.1


def test_integer_work_that_is_stored_is_what_the_kernel_is_for() -> None:
    """Of a hash the shifts and exclusive ors, neither the addresses nor the round counter."""
    code = Listing(program(HASH))
    own = [code[i].name for i in sorted(purpose(code))]
    assert own == ["IMAD.SHL.U32", "LOP3.LUT", "SHF.R.U32.HI", "LOP3.LUT", "IMAD.SHL.U32", "LOP3.LUT"]


def test_a_test_of_loaded_data_is_too() -> None:
    code = Listing(program(DIVISION.replace("0x20 BSSY B0, 0xc0", "0x20 LDG.E R0, desc[UR6][R12.64]")))
    own = {code[i].opcode for i in purpose(code)}
    assert own == {"ISETP"}, "the pointer that was divided for is none"
