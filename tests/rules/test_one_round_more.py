"""Loads take registers; where they leave an SM too few blocks, a grid of few rounds of the device takes one more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from kscope.features.facts import Code, Facts
from kscope.rules._shared.blocks.one_round_more import Room, elements_of_whole_rounds, hidden, room_for
from tests.support.said import found


def hot(known: Facts) -> tuple[Code, list[int]]:
    code = known.code
    assert isinstance(code, Code)
    loads = code.where(lambda ins, op: op.space == "global" and op.access == "load")
    return code, code.hottest(loads, code.blame.by_producer.get("long_scoreboard"))[:1]


def test_a_thread_at_the_limit_has_no_room(facts: Callable[[str], Facts]) -> None:
    """nearby.more: 0.97 waves at 32 registers. With more an SM holds fewer than 16."""
    known = facts("nearby.more")
    room = room_for(known, *hot(known), 4.0)
    assert room is not None
    assert room[:5] == (32, 16, 1, 2, 1.0)
    assert room.longer == pytest.approx(0.97 * 16 / 10, abs=0.02)  # three loads more of four words: 44 registers
    way, gain = room.told(known, "unroll", 0.4, 4.0)
    assert way.startswith("unroll; past 32 registers a thread the grid takes 2 rounds of blocks, not 1: ")
    assert way.endswith("__launch_bounds__(128, 16)")
    assert gain == room.gain(0.4, 4.0)
    assert room.gain(0.4, 4.0) < 1.15 < hidden(0.4, 4.0)


def test_the_dearer_of_two_ways_is_not_promised() -> None:
    """Half of the time waits for loads: four in flight hide 1.6x, in 1.25 times the rounds 1.28x; two 1.33x."""
    assert Room(40, 6, 2, 3, 2.0, 1.25).gain(0.5, 4.0) == pytest.approx(hidden(0.5, 2.0))
    assert Room(40, 6, 2, 3, 1.0, 1.25).gain(0.5, 4.0) == pytest.approx(1.6 / 1.25)


def test_many_rounds_or_few_blocks_are_none_of_it(facts: Callable[[str], Facts]) -> None:
    known = facts("nearby.more")
    code, loads = hot(known)
    blocks = known.counters.launch.blocks
    for times in (8, 0.25):
        launch = structs.replace(known.kernel.launch, grid=(int(blocks * times), 1, 1), waves=0.97 * times)
        other = Facts(structs.replace(known.kernel, launch=launch))
        assert room_for(other, code, loads, 4.0) is None
    assert room_for(known, code, loads, 1.0) is None  # nothing more in flight


def test_blocks_of_half_an_sm_double_the_rounds(facts: Callable[[str], Facts]) -> None:
    """Of 1,024 threads at 32 registers an SM holds two, with more one: four rounds become eight, not five."""
    known = facts("nearby.more")
    launch = structs.replace(known.kernel.launch, grid=(1024, 1, 1), block=(1024, 1, 1), waves=3.9)
    other = Facts(structs.replace(known.kernel, launch=launch))
    room = room_for(other, *hot(known), 4.0)
    assert room is not None and room[:4] == (32, 2, 4, 8)


def test_as_many_registers_as_there_are_cost_no_round(facts: Callable[[str], Facts]) -> None:
    """A block of 128 threads at 248 registers: two an SM, and as many with all 255."""
    known = facts("nearby.more")
    launch = structs.replace(known.kernel.launch, registers=248, waves=3.9)
    assert room_for(Facts(structs.replace(known.kernel, launch=launch)), *hot(known), 4.0) is None


def test_a_suggestion_says_what_keeps_the_blocks(facts: Callable[[str], Facts]) -> None:
    said = found("LAT302", facts("publish.fence_each")).fix
    assert said.endswith("the grid takes 2 rounds of blocks, not 1: __launch_bounds__(256, 8)")


@pytest.mark.parametrize(
    ("waves", "count", "longer"),
    [(2.96, 3, 1.0), (3.9, 4, 1.0), (2.0, 2, 1.0), (5.68, 3, 1.0), (4.2, 3, 1.2), (6.3, 4, 8 / 7)],
)
def test_elements_fill_whole_rounds(waves: float, count: int, longer: float) -> None:
    """Four elements a thread of 2.96 rounds make one that is four times as long: three is what the grid has."""
    assert elements_of_whole_rounds(waves, 4) == (count, pytest.approx(longer))
