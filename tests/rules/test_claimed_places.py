"""MEM109 where atomics claim places of a table: nothing is added up, so nothing can be added up first."""

from __future__ import annotations

import pytest

from kscope.model.contract.analysis import Finding
from kscope.rules._shared.atomics import raced
from kscope.rules._shared.blocks.claims import claimed, claims
from kscope.rules.base import PASSED
from kscope.rules.memory.atomic_contention import _before
from kscope.rules.registry import rule
from tests.rules.test_arithmetic import walked

CLAIM = """
0x0 S2R R0, SR_TID.X
0x10 LDC.64 R8, c[0x0][0x210]
0xe0 LDG.E R7, desc[UR4][R2.64]
0xf0 MOV R6, 0xffffffff
0x100 ATOMG.E.CAS.STRONG.GPU PT, R6, [R8], R6, R7
0x110 ATOMG.E.EXCH.STRONG.GPU PT, RZ, desc[UR4][R8.64+0x4], R5
0x120 ATOMG.E.ADD.STRONG.GPU PT, R4, desc[UR4][R8.64+0x4], RZ
0x130 {more}
0x140 IADD3 R2, R2, 0x4, RZ
0x150 ISETP.NE.AND P2, PT, R4, 0x40, PT
0x160 @P2 BRA 0xe0
0x170 EXIT
"""
ADDED = "ATOMG.E.ADD.STRONG.GPU PT, R4, desc[UR4][R8.64+0x8], R5"
SUM = """
LDG.E R6, desc[UR4][R8.64]
FADD R7, R6, R5
ATOMG.E.CAS.STRONG.GPU PT, R7, [R8], R6, R7
ISETP.NE.AND P0, PT, R7, R6, PT
MOV R6, R7
@P0 BRA 0x10
EXIT
"""


def test_what_claims_and_what_adds() -> None:
    facts, summed = walked(CLAIM.format(more=ADDED)), walked(SUM)
    assert facts.code is not None and summed.code is not None
    assert [claims(facts, facts.code, i) for i in (4, 5, 6, 7)] == [True, True, True, False]
    assert not claims(summed, summed.code, 2), "a sum of floats by compare-and-swap"


@pytest.mark.parametrize(("more", "waits", "told"), [("NOP", {}, True), (ADDED, {7: 9.0}, False)])
def test_several_atomics_a_place_become_fewer(more: str, waits: dict[int, float], told: bool) -> None:
    """A public hash table: "aggregate" was said, 0.94x as built; one compare-and-swap of 64 bits an entry 1.75x."""
    facts = walked(CLAIM.format(more=more))
    code = facts.code
    assert code is not None
    atomics = [i for i in range(len(code)) if code.classes[i].access == "atomic"]
    code.__dict__["blamed"] = [waits.get(i, 1.0 if i in atomics else 0.2) for i in range(len(code))]
    found = claimed(rule("MEM109")(), facts, code, atomics, 0.5)
    assert (found is not None) == told
    if isinstance(found, Finding):
        assert "compare-and-swap" in found.fix and "add up first" in found.why
        assert found.estimate is not None and 1.1 < found.estimate.speedup < 2


def test_one_compare_and_swap_a_place_is_as_few_as_can_be() -> None:
    lines = [line for line in CLAIM.format(more="NOP").splitlines() if "EXCH" not in line and "ADD.STRONG" not in line]
    facts = walked("\n".join(lines))
    code = facts.code
    assert code is not None
    code.__dict__["blamed"] = [1.0] * len(code)
    assert claimed(rule("MEM109")(), facts, code, [4], 0.5) is PASSED


SUMS = """
0x0 S2R R0, SR_TID.X
0x10 LDC.64 R8, c[0x0][0x210]
0x20 {place}
0x30 LDG.E R6, desc[UR4][R8.64]
0xe0 FADD R7, R6, R5
0xf0 ATOMG.E.CAS.STRONG.GPU PT, R7, desc[UR4][R8.64], R6, R7
0x100 ISETP.NE.AND P0, PT, R7, R6, PT
0x110 MOV R6, R7
0x120 @P0 BRA 0xe0
0x130 EXIT
"""


@pytest.mark.parametrize(("place", "together"), [("NOP", True), ("IMAD.WIDE R8, R0, 0x4, R8", False)])
def test_more_warps_that_try_again_on_one_address_come_last(place: str, together: bool) -> None:
    """A public kernel of 1,024 warps: "more threads share the rounds" was said, and eight times as many, whose sums
    meet in one compare-and-swap loop, take 14 times as long."""
    facts = walked(SUMS.format(place=place))
    assert raced(facts) == ([5] if together else [])
    assert (_before(facts, None) == []) or not together
