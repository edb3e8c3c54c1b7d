"""Sums that a loop keeps in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.features.patterns.kept_in_memory import kept_in_memory
from kscope.features.sass.listing import Listing
from tests.features.listings import program

LOOP = """
0x0 S2R R2, SR_TID.X
0x10 LEA R4, R2, UR4, 0x2
0x20 LDS R8, [R4+0x200]
0x30 LDS R7, [R6+UR4]
0x40 FFMA R8, R3, R7, R8
0x50 {store}
0x60 IADD3 R6, R6, 0x4, RZ
0x70 ISETP.NE.AND P0, PT, R6, 0x220, PT
0x80 @P0 BRA 0x30
0x90 EXIT
"""


def kept(store: str) -> list[tuple[int, ...]]:
    return [k.stores for k in kept_in_memory(Listing(program(LOOP.format(store=store)), "test"))]


def test_a_store_to_the_same_place_in_every_round() -> None:
    assert kept("STS [R4+0x200], R8") == [(5,)]


def test_rounds_written_out_behind_each_other_are_counted() -> None:
    twice = "STS [R4+0x200], R8\n0x54 FFMA R8, R3, R7, R8\n0x58 STS [R4+0x200], R8"
    other = "STS [R4+0x200], R8\n0x54 STS [R4+0x300], R8"
    for store, rounds in (("STS [R4+0x200], R8", 1), (twice, 2), (other, 1)):
        (found,) = kept_in_memory(Listing(program(LOOP.format(store=store)), "test"))
        assert found.rounds == rounds, store


def test_an_array_that_is_filled_is_none() -> None:
    assert kept("STS [R6+0x200], R8") == []


def test_what_is_not_made_in_the_loop_or_handed_over_is_none() -> None:
    assert kept("STS [R4+0x200], R9") == []
    assert kept("STS.STRONG [R4+0x200], R8") == []
    assert kept("@P1 STS [R4+0x200], R8") == []
    assert kept("BAR.SYNC.DEFER_BLOCKING 0x0") == []


def test_on_captures(facts: Callable[[str], Facts]) -> None:
    (found,) = facts("sums.in_shared").patterns.kept_in_memory
    assert found.space == "shared" and len(found.stores) == 16 and len(found.others) == 16
    assert found.rounds == 16
    assert facts("sums.in_register").patterns.kept_in_memory == []


# *y = 0; *y += a * x[i]; *y += b * x[j]; *y += c * x[k]; as pointers without __restrict__ make it (nvcc 13.0, sm_90)
TERMS = """
0x0 S2R R2, SR_TID.X
0x10 IMAD.WIDE R4, R2, 0x4, R20
0x20 STG.E desc[UR4][R4.64], RZ
0x30 LDG.E R6, desc[UR4][R10.64]
0x40 FFMA R8, R6, R30, RZ
0x50 STG.E desc[UR4][R4.64], R8
0x60 {second}
0x70 FFMA R9, R6, R31, R8
0x80 {between}
0x90 STG.E desc[UR4][R4.64], R9
0xa0 LDG.E R6, desc[UR4][R14.64]
0xb0 {third}
0xc0 STG.E desc[UR4][{place}.64], R8
0xd0 EXIT
"""
PLAIN = {
    "second": "LDG.E R6, desc[UR4][R12.64]", "between": "NOP", "third": "FFMA R8, R6, R32, R9", "place": "R4"
}  # fmt: skip


@pytest.mark.parametrize(
    ("other", "terms"),
    [
        ({}, 4),
        ({"place": "R16"}, 3),  # the last goes elsewhere: nothing is stored and then one term
        ({"third": "FFMA R8, R6, R32, R33"}, 0),  # a new value, not this sum
        ({"between": "BAR.SYNC.DEFER_BLOCKING 0x0"}, 0),  # others may read it here
        ({"between": "IADD3 R4, R4, 0x4, RZ"}, 0),  # another address in the same register
    ],
)
def test_a_sum_that_is_stored_behind_each_of_its_terms(other: dict[str, str], terms: int) -> None:
    found = kept_in_memory(Listing(program(TERMS.format(**(PLAIN | other))), "test"))
    assert [k.rounds for k in found] == ([terms] if terms else [])
    for k in found:
        assert k.written_out and len(k.stores) == terms - 1 and k.others and k.loop == -1
