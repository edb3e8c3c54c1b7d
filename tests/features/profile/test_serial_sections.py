"""Who works between two barriers."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from kscope.features.facts import Facts
from kscope.features.profile.blame import Blame
from kscope.features.profile.code import Code
from kscope.features.profile.serial_sections import Alone, alone
from kscope.features.sass.columns import Column
from kscope.features.sass.listing import Listing
from tests.features.listings import program

WALK = """
S2R R0, SR_TID.X
ISETP.NE.AND P2, PT, R0, RZ, PT
BAR.SYNC.DEFER_BLOCKING 0x0
@P2 BRA 0xb0
MOV R6, RZ
MOV R12, RZ
LDS R8, [R6]
IADD3 R6, R6, 0x4, RZ
FADD R12, R8, R12
FSETP.GT.AND P0, PT, R12, 1, PT
@!P0 BRA 0x60
BAR.SYNC.DEFER_BLOCKING 0x0
EXIT
"""
INSIDE = range(6, 11)
ALL = """
S2R R0, SR_TID.X
IADD3 R6, R6, 0x4, RZ
FSETP.GT.AND P0, PT, R12, 1, PT
@!P0 BRA 0x10
BAR.SYNC.DEFER_BLOCKING 0x0
ISETP.GT.U32.AND P2, PT, R0, 0x1f, PT
@P2 BRA 0xa0
LDS R8, [R6]
FADD R12, R8, R12
STS [R6], R12
BAR.SYNC.DEFER_BLOCKING 0x0
EXIT
"""
"""All warps walk a loop; then one of eight adds up in straight-line code."""


class Counted(Listing):
    """A block of eight warps, of which `warps` walk `rounds` rounds with `lanes` lanes."""

    rounds = 100

    def __init__(self, warps: float, lanes: float, hot: float, text: str = WALK) -> None:
        super().__init__(program(text), "test")
        self.warps, self.lanes, self.hot = warps, lanes, hot

    @property
    def executed(self) -> Column:  # type: ignore[override]
        inside = self.rounds * self.warps
        return [inside if i in INSIDE else self.warps if i in (4, 5) else 8.0 for i in range(len(self.program))]

    @property
    def threads(self) -> Column:
        return [n * (self.lanes if i in INSIDE else 32) for i, n in enumerate(self.executed)]

    @property
    def samples(self) -> Column:
        return [self.hot if i in INSIDE else 1.0 for i in range(len(self.program))]


    @property
    def blame(self) -> Blame:
        return Blame({}, {}, {})


class Straight(Counted):
    """Of ALL: `waited` samples at the second barrier, and `each` at each instruction of the warp that is alone."""

    def __init__(self, waited: float, each: float) -> None:
        super().__init__(8, 32, 0, ALL)
        self.waited, self.each = waited, each

    @property
    def executed(self) -> Column:  # type: ignore[override]
        return [800.0 if i in (1, 2, 3) else 1.0 if i in (7, 8, 9) else 8.0 for i in range(len(self.program))]

    @property
    def threads(self) -> Column:
        return [32 * n for n in self.executed]

    @property
    def samples(self) -> Column:
        at = {1: 50.0, 7: self.each, 8: self.each, 9: self.each, 11: self.waited}
        return [at.get(i, 0.0) for i in range(len(self.program))]

    @property
    def blame(self) -> Blame:
        return Blame({"barrier": [self.waited if i == 10 else 0.0 for i in range(len(self.program))]}, {}, {})


def of(warps: float, lanes: float, hot: float = 5.0, text: str = WALK) -> Code:
    return cast(Code, Counted(warps, lanes, hot, text))


@pytest.mark.parametrize(("warps", "lanes"), [(1, 1), (1, 32), (4, 32), (8, 16)])
def test_warps_and_lanes_that_work(warps: float, lanes: float) -> None:
    found = alone(of(warps, lanes))
    assert found is not None
    assert found.warps == pytest.approx(warps / 8) and found.lanes == pytest.approx(lanes / 32)
    assert set(found.members) == set(INSIDE) and found.shareable, "a sum can be shared out"


def test_whole_blocks_that_pass_a_loop_by_leave_nobody_waiting() -> None:
    """The branch around the loop asks for the block's number: all warps of an eighth of the blocks walk it."""
    assert alone(of(1, 32)) is not None
    assert alone(of(1, 32, text=WALK.replace("SR_TID.X", "SR_CTAID.X"))) is None


def test_a_round_for_each_of_a_few_threads_cannot_be_dealt_out() -> None:
    """More threads would have a part of an element. A public kernel that loads sines for its block: 0.88x."""
    assert isinstance(found := alone(of(1, 32)), Alone) and found.shareable
    once = of(1, 32)
    cast(Counted, once).rounds = 1
    assert isinstance(found := alone(once), Alone) and not found.shareable


def test_a_chain_that_nobody_can_share() -> None:
    found = alone(of(1, 1, text=WALK.replace("LDS R8, [R6]", "LDS R6, [R6]").replace("FADD R12, R8", "FADD R12, R6")))
    assert found is not None and not found.shareable


def test_a_loop_that_costs_nothing_and_one_without_barriers_are_left_aside() -> None:
    assert alone(of(1, 1, hot=0.01)) is None
    assert alone(of(1, 1, text=WALK.replace("BAR.SYNC.DEFER_BLOCKING 0x0", "NOP"))) is None


def test_one_lane_of_one_warp_walks_the_sum(facts: Callable[[str], Facts]) -> None:
    code = facts("nucleus.walk").code
    assert code is not None
    found = alone(code)
    assert found is not None and found.shareable
    assert found.warps == pytest.approx(1 / 8) and found.lanes == pytest.approx(1 / 32, rel=0.1)


def test_what_runs_before_the_barrier_is_awaited_not_the_hottest_loop() -> None:
    found = alone(cast(Code, Straight(waited=21, each=1)))
    assert found is not None and set(found.members) == {7, 8, 9} and found.warps == pytest.approx(1 / 8)


def test_few_warps_that_are_soon_done_keep_nobody_waiting() -> None:
    """A warp of eight that has 0.3 samples explains 2.1 of others, not 21."""
    found = alone(cast(Code, Straight(waited=21, each=0.1)))
    assert found is not None and found.warps == 1.0, "the loop of all"


def test_one_warp_joins_what_all_have_found(facts: Callable[[str], Facts]) -> None:
    """topk.block: the hottest loop is all warps', and they wait for the one that comes after it."""
    found = facts("topk.block").profile.serial_section
    assert found is not None and found.warps < 0.5
    known = facts("mm.reg1d").profile.serial_section
    assert known is None or known.warps >= 0.5, "code before a loop runs once, in all warps"
