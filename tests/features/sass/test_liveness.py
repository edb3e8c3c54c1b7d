"""Live registers on small listings whose answers can be worked out by hand."""

from __future__ import annotations

from kscope.features.sass.cfg import build_cfg
from kscope.features.sass.liveness import Liveness
from kscope.model.program import register_name
from tests.features import listings

CALLS = """
0x0 S2R R4, SR_TID.X
0x10 MOV R8, 0x7
0x20 MOV R2, 0x40
0x30 CALL.REL.NOINC 0x70
0x40 IADD3 R5, R4, R8, RZ
0x50 STG.E desc[UR4][R6.64], R5
0x60 EXIT
0x70 IADD3 R4, R4, 0x1, RZ
0x80 RET.REL.NODEC R2 0x0
"""


def live(text: str) -> Liveness:
    program = listings.program(text)
    return Liveness(program, build_cfg(program))


def names(registers: tuple[int, ...]) -> str:
    return " ".join(map(register_name, registers))


def test_a_value_lives_from_its_definition_to_its_last_use() -> None:
    found = live("MOV R4, 0x1\nMOV R5, 0x2\nIADD3 R6, R4, R5, RZ\nSTG.E [R2], R6\nEXIT")
    assert [names(found.after(i)) for i in range(4)] == ["R4", "R4 R5", "R6", ""]
    assert found.counts() == [1, 2, 3, 1, 0]
    assert found.peak() == (3, 2)


def test_wide_operands_take_all_their_registers() -> None:
    found = live("S2R R2, SR_TID.X\nMOV R3, RZ\nLDG.E.128 R4, desc[UR4][R2.64]\nSTG.E.128 desc[UR4][R2.64], R4\nEXIT")
    assert names(found.before(3)) == "R2 R3 R4 R5 R6 R7"


def test_a_dead_definition_takes_its_register_for_one_instruction() -> None:
    found = live("MOV R4, 0x1\nEXIT")
    assert (found.count(0), found.after(0)) == (1, ())


def test_a_guarded_definition_keeps_the_old_value_alive() -> None:
    found = live("MOV R4, 0x1\nISETP.NE.AND P0, PT, R4, RZ, PT\n@P0 MOV R4, 0x2\nSTG.E [R2], R4\nEXIT")
    assert names(found.after(1)) == "R4 P0"
    assert found.count(1, "P") == 1


def test_what_nothing_has_set_occupies_nothing() -> None:
    found = live("ISETP.NE.AND P0, PT, RZ, RZ, PT\n@P0 MOV R4, 0x2\n@P0 STG.E [R2], R4\nEXIT")
    assert found.after(0) == (512,)


def test_around_a_loop() -> None:
    program = listings.program(listings.CHAIN)
    found = Liveness(program, build_cfg(program))
    back = next(i for i, ins in enumerate(program.instructions) if ins.opcode == "BRA")
    assert names(found.after(back)) == "R3 R4 R5"


def test_what_lives_across_a_call_lives_inside_the_callee() -> None:
    found = live(CALLS)
    assert names(found.before(3)) == "R2 R4 R8"
    assert names(found.before(7)) == "R2 R4 R8"
    assert names(found.before(4)) == "R4 R8"


def test_two_callers_do_not_mix() -> None:
    twice = """
0x0 MOV R4, 0x1
0x10 MOV R2, 0x30
0x20 CALL.REL.NOINC 0x90
0x30 MOV R9, R4
0x40 MOV R2, 0x60
0x50 CALL.REL.NOINC 0x90
0x60 IADD3 R4, R4, R9, RZ
0x70 STG.E desc[UR4][R6.64], R4
0x80 EXIT
0x90 IADD3 R4, R4, 0x1, RZ
0xa0 RET.REL.NODEC R2 0x0
"""
    found = live(twice)
    assert names(found.before(2)) == "R2 R4"  # R9 is not needed before the first call
    assert names(found.before(5)) == "R2 R4 R9"


def test_an_empty_program() -> None:
    assert live("").peak() == (0, 0)
