"""Who works between two barriers."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from kscope.features.facts import Facts
from kscope.features.profile.code import Code
from kscope.features.profile.serial_sections import alone
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


class Counted(Listing):
    """A block of eight warps, of which `warps` walk 100 rounds with `lanes` lanes."""

    def __init__(self, warps: float, lanes: float, hot: float, text: str = WALK) -> None:
        super().__init__(program(text), "test")
        self.warps, self.lanes, self.hot = warps, lanes, hot

    @property
    def executed(self) -> Column:  # type: ignore[override]
        return [
            100 * self.warps if i in INSIDE else self.warps if i in (4, 5) else 8.0 for i in range(len(self.program))
        ]

    @property
    def threads(self) -> Column:
        return [n * (self.lanes if i in INSIDE else 32) for i, n in enumerate(self.executed)]

    @property
    def samples(self) -> Column:
        return [self.hot if i in INSIDE else 1.0 for i in range(len(self.program))]


def of(warps: float, lanes: float, hot: float = 5.0, text: str = WALK) -> Code:
    return cast(Code, Counted(warps, lanes, hot, text))


@pytest.mark.parametrize(("warps", "lanes"), [(1, 1), (1, 32), (4, 32), (8, 16)])
def test_warps_and_lanes_that_work(warps: float, lanes: float) -> None:
    found = alone(of(warps, lanes))
    assert found is not None
    assert found.warps == pytest.approx(warps / 8) and found.lanes == pytest.approx(lanes / 32)
    assert set(found.members) == set(INSIDE) and found.shareable, "a sum can be shared out"


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
