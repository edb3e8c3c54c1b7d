"""Which functions of doubles a kernel calls, how often, and what belongs to its double arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import DOUBLE, Facts, Listing
from kscope.features.patterns.double_math import DoubleCall, in_memory, of_doubles, tabled
from kscope.features.patterns.slow_paths import slow_paths
from tests.features.listings import program


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("weights.pow", {"pow": 65536, "exp": 65536, "division": 65536}),
        ("weights.root", {"exp": 65536, "square root": 65536, "division": 65536}),
        ("series_f64.base", {}),
        ("quotients.divided", {}),
    ],
)
def test_calls(case: str, expected: dict[str, float], facts: Callable[[str], Facts]) -> None:
    """65,536 warps with one element a lane; pow's own division and exponential are not counted twice."""
    assert {c.function: c.calls for c in facts(case).patterns.double_calls} == expected


# y = (y + 1.0) * 0.5 with floats, amid float arithmetic; sm_90, nvcc 13.0.
LITERALS = """
LDG.E R2, desc[UR4][R4.64]
FMUL R6, R2, R2
FFMA R7, R6, R2, 10
FFMA R8, R7, R6, -15
FMUL R9, R8, R7
FADD R9, R9, -R2
FFMA R9, R9, R6, R2
F2F.F64.F32 R10, R9
DADD R10, R10, 1
DMUL R10, R10, 0.5
F2F.F32.F64 R10, R10
FFMA R11, R10, R2, R9
FADD R11, R11, -R6
STG.E desc[UR4][R4.64], R11
EXIT
"""

# A quotient of doubles: the test of its halves in float, the reciprocal and the constants are its own.
QUOTIENT = """
0x0 LDG.E R5, desc[UR4][R2.64]
0x10 F2F.F64.F32 R10, R5
0x20 IMAD.MOV.U32 R12, RZ, RZ, 0x1
0x30 MUFU.RCP64H R13, R17
0x40 DFMA R14, -R16, R12, 1
0x50 DFMA R14, R14, R14, R14
0x60 DFMA R12, R12, R14, R12
0x70 FSETP.GEU.AND P1, PT, |R11|, 6.5827683646048100446e-37, PT
0x80 DMUL R18, R10, R12
0x90 DFMA R20, -R16, R18, R10
0xa0 DFMA R12, R12, R20, R18
0xb0 FFMA R0, RZ, R17, R13
0xc0 FSETP.GT.AND P0, PT, |R0|, 1.469367938527859385e-39, PT
0xd0 BSSY B0, 0x120
0xe0 @P0 BRA P1, 0x110
0xf0 MOV R0, 0x110
0x100 CALL.REL.NOINC 0x150
0x110 BSYNC B0
0x120 F2F.F32.F64 R0, R12
0x130 STG.E desc[UR4][R2.64], R0
0x140 EXIT
0x150 DMUL R12, R12, R14
0x160 IMAD.MOV.U32 R8, RZ, RZ, R0
0x170 RET.REL.NODEC R8 0x0
"""


def of(text: str) -> tuple[Listing, list[int]]:
    code = Listing(program(text), "test")
    return code, of_doubles(code, code.where(lambda ins, op: ins.opcode in (*DOUBLE, "F2F")))


def test_two_literals_do_not_make_their_block_double() -> None:
    """Four instructions of a float block: the others stay as they are in float."""
    assert of(LITERALS)[1] == [7, 8, 9, 10]


def test_a_block_that_is_mostly_double_is_so_with_its_branch() -> None:
    code, members = of(QUOTIENT)
    assert set(range(1, 15)) <= set(members), "constants, the test and the branch around the slow path"
    assert not any(code.classes[i].access for i in members)


def test_the_way_round_of_a_division_is_a_slow_path() -> None:
    code = Listing(program(QUOTIENT), "test")
    assert slow_paths(code) == {15, 16, 21, 22, 23}
    stores = Listing(program(QUOTIENT.replace("0x150 DMUL R12, R12, R14", "0x150 STG.E desc[UR4][R2.64], R12")), "test")
    assert slow_paths(stores) == set(), "what writes memory is no function of the library"


# q(i) of two constants that an index picks, or of one of them and a loaded number; times what is loaded.
QUOTIENTS = """
0x0 S2R R0, SR_TID.X
0x10 LDG.E.64 R4, desc[UR4][R2.64]
0x20 SHF.L.U32 R1, R0, 0x3, RZ
0x30 LDC.64 R16, c[0x3][R1]
0x40 LDC.64 R10, c[0x3][R1+0x800]
0x50 MUFU.RCP64H R13, {divisor}
0x60 MOV R12, 0x1
0x70 DFMA R14, -R16, R12, 1
0x80 DFMA R12, R12, R14, R12
0x90 DMUL R18, R10, R12
0xa0 DMUL R20, R18, R4
0xb0 STG.E.64 desc[UR4][R2.64], R20
0xc0 EXIT
"""


def test_quotients_of_indexed_constants() -> None:
    """The division goes with its constants and their index; the product with what was loaded stays."""
    found = tabled(Listing(program(QUOTIENTS.format(divisor="R17"))), [DoubleCall("division", 1, (5,))])
    assert found is not None and found.anchors == (5,)
    assert {2, 3, 4, 5, 7, 8, 9} <= set(found.members) and {1, 10, 11}.isdisjoint(found.members)
    assert tabled(Listing(program(QUOTIENTS.format(divisor="R5"))), [DoubleCall("division", 1, (5,))]) is None


# y = y + (double)f, with y in shared memory and f in device memory.
MEANT = """
LDG.E R2, desc[UR4][R4.64]
LDS.64 R6, [R3]
F2F.F64.F32 R8, R2
DMUL R8, R8, R8
DADD R10, R6, R8
STS.64 [R3], R10
EXIT
"""


def test_doubles_of_memory_are_meant() -> None:
    """The sum takes a double from memory; what a float became, and its square, do not. Literals bring none."""
    code = Listing(program(MEANT), "meant")
    assert in_memory(code, [3, 4]) == [4]
    literals = Listing(program(LITERALS), "literals")
    assert in_memory(literals, literals.where(lambda ins, op: ins.opcode in DOUBLE)) == []


@pytest.mark.parametrize(
    ("case", "accident"), [("gamma.double", True), ("fp64_literal.slow", True), ("weights.pow", False)]
)
def test_data_that_is_double_is_no_accident(case: str, accident: bool, facts: Callable[[str], Facts]) -> None:
    f = facts(case)
    assert f.code is not None
    double = f.code.ran(f.code.where(lambda ins, op: ins.opcode in DOUBLE))
    assert (f.profile.doubles_in_memory(double) == 0) == accident
