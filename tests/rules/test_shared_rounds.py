"""What GRD401 says of the rounds a thread walks: those written out behind each other are told with their elements."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.features.patterns.loop_parallelism import Pieces, pieces
from kscope.model.contract.analysis import Finding
from kscope.rules._shared.blocks.deeper_loads import ORDERED, UNROLL, unrolled
from kscope.rules._shared.shared_rounds import dealing_out, rounds_in_words
from kscope.rules._shared.waits_in_row import loops_first
from kscope.rules.grid import small_grid
from tests.rules.test_arithmetic import walked


@pytest.mark.parametrize(("each", "words"), [(1, "{} rounds,"), (10**6, "{} rounds of 1000000 elements,")])
def test_rounds_and_their_elements(each: int, words: str, facts: Callable[[str], Facts]) -> None:
    known = facts("small_grid.slow")
    assert known.code is not None and known.estimate.latency_floor is not None
    found = pieces(known.code, known.estimate.latency_floor.walk)
    assert found.each == 1 and found.loops
    divided = msgspec.structs.replace(found, each=each)
    trips = " x ".join(f"{known.patterns.trips(n):,.0f}" for n in found.loops)
    assert words.format(trips) in rounds_in_words(known, divided, ())
    assert f"share the {words.format(trips).rstrip(',')} of each one" in dealing_out(known, divided)


def test_parts_that_a_block_joins_are_stored_once(
    facts: Callable[[str], Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads for each of lora.mma's 128 are one block still: what they add up does not go through memory."""
    def promised() -> float:
        found = rule.check(known)
        assert isinstance(found, Finding) and found.estimate is not None
        return found.estimate.speedup

    rule, known = small_grid.SmallGrid(), facts("lora.mma")
    inside = promised()
    monkeypatch.setattr(small_grid, "THREADS", 0)
    assert promised() < inside


SWAPS = """
0x0 S2R R0, SR_TID.X
0x10 LDC.64 R2, c[0x0][0x210]
0x20 LDC.64 R6, c[0x0][0x218]
0x30 IMAD.WIDE R2, R0, 0x4, R2
0xe0 LDG.E R8, desc[UR6][R6.64]
0xf0 IMAD.WIDE R10, {picked}, 0x4, R2
0x100 LDG.E R12, desc[UR6][R10.64]
0x110 LDG.E R13, desc[UR6][R2.64]
0x120 STG.E desc[UR6][{to}.64], R12
0x130 IADD3 R6, R6, 0x4, RZ
0x140 IADD3 R2, R2, 0x1000, RZ
0x150 IADD3 R20, R20, 0x1, RZ
0x160 ISETP.NE.AND P2, PT, R20, 0x40, PT
0x170 @P2 BRA 0xe0
0x180 EXIT
"""


@pytest.mark.parametrize(
    ("picked", "to", "exchanges"), [("R8", "R2", True), ("R20", "R2", True), ("RZ", "R2", False), ("R8", "R6", False)],
    ids=["rows that pivots pick", "rows that the round picks", "in place", "another array"],
)  # fmt: skip
def test_rounds_that_may_need_what_others_have_stored(picked: str, to: str, exchanges: bool) -> None:
    """A public kernel that exchanges rows, another that solves with those that it has solved: their rounds were told to
    need nothing of each other. What is changed where it was loaded needs none."""
    text = SWAPS.format(picked=picked, to=to)
    facts = walked(text if picked != "RZ" else text.replace("[R10.64]", "[R2.64]"))
    assert facts.code is not None and facts.addresses.exchanges(0) == exchanges
    assert unrolled(facts, 0) == (ORDERED if exchanges else UNROLL)
    divided = Pieces(((1.0, 64.0),), (), False, (0,))
    assert ("where no round reads" in dealing_out(facts, divided)) == exchanges


def test_sums_that_are_stored_on_the_way_are_a_scan(facts: Callable[[str], Facts]) -> None:
    """A public kernel of sum area tables: "which carry nothing but sums" was said, whose every step is stored."""
    known = facts("small_grid.slow")
    assert known.code is not None and known.estimate.latency_floor is not None
    found = pieces(known.code, known.estimate.latency_floor.walk)
    assert known.patterns.joined(found.loops[-1]) == {"sum"}
    words = [rounds_in_words(known, msgspec.structs.replace(found, twice=twice), ()) for twice in (False, True)]
    assert "nothing but sums" in words[0] and "store them on the way" in words[1]


SIZED = """
0x0 S2R R0, SR_TID.X
0x10 LDC R5, c[0x0][0x210]
0x20 LDC.64 R6, c[0x0][0x218]
0x30 LDC.64 R8, c[0x0][0x220]
0xe0 IMAD R4, R20, R5, R0
0xf0 IMAD.WIDE R10, R4, 0x4, R6
0x100 LDG.E R12, desc[UR6][R10.64]
0x110 IMAD.WIDE R14, R12, R5, R0
0x120 IMAD.WIDE R14, R14, 0x4, R6
0x130 LDG.E R13, desc[UR6][R14.64]
0x140 IMAD.WIDE R16, R4, 0x4, R8
0x150 STG.E desc[UR6][R16.64], R13
0x160 IADD3 R20, R20, 0x1, RZ
0x170 ISETP.NE.AND P2, PT, R20, 0x40, PT
0x180 @P2 BRA 0xe0
0x190 EXIT
"""


def test_a_size_that_two_indices_share_makes_no_one_array() -> None:
    """A public kernel that gathers from one array and stores to another, both at multiples of a parameter: "load and
    store one array" was said."""
    facts = walked(SIZED)
    assert [facts.addresses.pointer(i) for i in (6, 9, 11)] == ["c[0x0][0x218]", "c[0x0][0x218]", "c[0x0][0x220]"]
    assert not facts.addresses.exchanges(0)
    assert walked(SIZED.replace("0x4, R8", "0x4, R6")).addresses.exchanges(0)


def test_of_two_waits_the_one_of_rounds_leads() -> None:
    """A public kernel that looks up a row and copies it, as long waited for: "the loads are in no loop" was said."""
    facts = walked(SIZED.replace("0x30 LDC.64", "0x30 LDG.E R20, desc[UR6][R6.64]\n0x40 LDC.64"))
    code = facts.code
    assert code is not None and code.cfg.loop_of[3] is None and code.cfg.loop_of[7] is not None
    code.__dict__["blamed"] = [1.0 if i == 3 else 0.8 if i == 7 else 0.0 for i in range(len(code))]
    assert loops_first(facts, code, [3, 7]) == [7, 3]
    code.__dict__["blamed"][7] = 0.5
    assert loops_first(facts, code, [3, 7]) == [3, 7]
