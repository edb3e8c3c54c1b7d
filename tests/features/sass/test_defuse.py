"""Reaching definitions, against what one reads off the listing."""

from __future__ import annotations

import time

from kscope.features.sass.cfg import build_cfg
from kscope.features.sass.defuse import DefUse
from kscope.model.program import PREDICATE_BASE, UNIFORM_BASE
from tests.features.listings import CHAIN, NESTED, program


def solve(text: str) -> DefUse:
    p = program(text)
    return DefUse(p, build_cfg(p))


def test_straight_line() -> None:
    d = solve("MOV R1, 1\nMOV R2, 2\nMOV R1, 3\nIADD3 R3, R1, R2, RZ\nEXIT")
    assert d.sources(3) == {1: (2,), 2: (1,)}
    assert d.consumers(0) == () and d.consumers(2) == (3,)
    assert d.producers(3, 9) == ()


def test_guarded_definition_does_not_end_the_old_one() -> None:
    d = solve("MOV R1, 1\nISETP.NE.AND P0, PT, R4, RZ, PT\n@P0 MOV R1, 2\nFADD R3, R1, R1\nEXIT")
    assert d.producers(3, 1) == (0, 2)
    assert d.producers(2, PREDICATE_BASE) == (1,)


def test_both_sides_of_a_diamond_reach() -> None:
    d = solve("@P0 BRA 0x30\nMOV R1, 1\nBRA 0x40\nMOV R1, 2\nSTG.E [R2.64], R1\nEXIT")
    assert d.producers(4, 1) == (1, 3)


def test_values_travel_around_a_loop() -> None:
    d = solve(CHAIN)
    assert d.producers(3, 5) == (6,)  # the accumulator's first use: the last multiply-add of the round before
    assert d.producers(4, 5) == (3,)
    assert d.producers(1, 3) == (1,)
    assert d.producers(3, 4) == (0,)


def test_every_register_of_a_wide_load_is_its_own() -> None:
    d = solve("LDG.E.128 R4, desc[UR6][R2.64]\nMOV R6, 1\nFADD R8, R4, R6\nSTG.E.128 [R2.64], R4\nEXIT")
    assert d.producers(2, 4) == (0,) and d.producers(2, 6) == (1,)
    assert d.sources(3)[7] == (0,) and d.sources(3)[6] == (1,)


def test_nested_loops_and_uniform_registers() -> None:
    d = solve(NESTED)
    assert d.producers(11, UNIFORM_BASE + 6) == (2,)
    assert d.producers(10, 9) == (1, 12)  # before the loops, or around the inner one
    assert d.producers(14, 4) == (11,)
    assert d.consumers(11) == (14,)
    assert d.producers(19, 11) == (14,)


def test_values_pass_through_calls() -> None:
    d = solve("MOV R2, 1\nCALL.REL.NOINC 0x40\nFADD R3, R2, R2\nEXIT\nFADD R2, R2, R7\nRET.REL.NODEC R8 0x0")
    assert d.producers(4, 2) == (0,)
    assert d.producers(2, 2) == (4,), "the callee overwrites it"


def test_what_one_call_site_left_does_not_come_back_at_another() -> None:
    d = solve(
        "MOV R2, 1\nMOV R5, 1\nCALL.REL.NOINC 0x80\nMOV R5, 2\nMOV R2, 3\nCALL.REL.NOINC 0x80\n"
        "FADD R3, R5, R4\nEXIT\nFADD R4, R2, R7\nRET.REL.NODEC R8 0x0"
    )
    assert d.producers(8, 2) == (0, 4), "the callee is asked by both"
    assert d.producers(6, 5) == (3,) and d.producers(6, 4) == (8,)


def test_definitions_under_predicates() -> None:
    same = "ISETP.NE.AND P0, PT, R9, RZ, PT\nMOV R1, 1\n@P0 LDG.E R1, desc[UR4][R2.64]\n"
    d = solve(same + "@P0 FADD R4, R1, R1\n@!P0 FADD R5, R1, R1\nFADD R6, R1, R1\nEXIT")
    assert d.producers(3, 1) == (2,), "under the same predicate the first definition is gone"
    assert d.producers(4, 1) == (1,), "under the opposite one the second never happened"
    assert d.producers(5, 1) == (1, 2)
    d = solve(same + "@!P0 MOV R1, 2\nFADD R6, R1, R1\nEXIT")
    assert d.producers(4, 1) == (2, 3), "both senses leave nothing of before"
    d = solve(same + "ISETP.NE.AND P0, PT, R8, RZ, PT\n@P0 FADD R4, R1, R1\nEXIT")
    assert d.producers(4, 1) == (1, 2), "another value of the predicate says nothing"
    d = solve("MOV R1, 1\n@P0 MOV R1, 2\n@!P0 MOV R1, 3\nBRA 0x40\nFADD R6, R1, R1\nEXIT")
    assert d.producers(4, 1) == (1, 2), "behind the block too"


def test_cost_is_a_few_times_that_of_reading_the_listing() -> None:
    body = [f"@!P0 BRA {16 * (k + 4):#x}\nFFMA R{k % 200}, R{(k * 7) % 200}, R{(k * 3) % 200}, R9\n"
            f"LDG.E R{k % 100}, desc[UR4][R{(k % 50) * 2}.64]\nIADD3 R{k % 190}, R{k % 31}, R1, RZ"
            for k in range(0, 2000, 4)]  # fmt: skip
    listing = "\n".join([*body, "@P1 BRA 0x0", "EXIT"])
    reading, solving = [], []
    for _ in range(5):  # in turn, so that other work on the machine slows both
        start = time.process_time()
        p = program(listing)
        reading.append(time.process_time() - start)
        cfg = build_cfg(p)
        start = time.process_time()
        DefUse(p, cfg).sources(0)
        solving.append(time.process_time() - start)
    assert min(solving) < 12 * min(reading), (solving, reading)
