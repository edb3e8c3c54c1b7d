"""What a larger block makes of a launch, against cases counted by hand (sm_90: 64 warps, 32 blocks, 227 KiB)."""

from __future__ import annotations

import pytest

from kscope.features.counters.launch import geometry
from kscope.features.counters.packing import Packing, packing
from tests.support.edit import made

LIMITS = {
    "launch__occupancy_limit_registers": 64.0, "launch__occupancy_limit_shared_mem": 32.0,
    "launch__occupancy_limit_blocks": 32.0, "launch__occupancy_limit_warps": 64.0,
}  # fmt: skip


def of(grid: int, block: int, then: int, lanes: float | None, shared: int = 0) -> Packing:
    kernel = made(LIMITS, grid=grid, block=block, sms=100, shared_static=shared)
    found = packing(kernel, geometry(kernel), then, lanes)
    assert found is not None
    return found


def test_lanes_that_agree_leave_an_eighth_of_the_instructions() -> None:
    p = of(1_000_000, 4, 32, 4.0)
    assert (p.instructions, p.path, p.blocks) == (pytest.approx(1 / 8), pytest.approx(1.0), 1 / 8)
    assert p.in_flight == 32 * 32 / (32 * 4), "32 blocks an SM before and after"
    assert p.factor == pytest.approx(8.0)


def test_lanes_that_never_agree_save_nothing_and_take_eight_times_as_long() -> None:
    p = of(1_000_000, 4, 32, 1.0).apart
    assert (p.instructions, p.path) == (pytest.approx(1.0), pytest.approx(8.0))
    assert p.factor == pytest.approx(1.0), "eight times the threads, each eight times as long"


def test_lanes_that_agree_half_the_way_lie_between() -> None:
    p = of(1_000_000, 4, 32, 2.0)
    assert (p.apart.instructions, p.apart.path) == (pytest.approx(8**-0.5), pytest.approx(8**0.5))
    assert p.path == pytest.approx(8**0.25), "as likely as not there are only a few ways to go"


@pytest.mark.parametrize(("block", "lanes", "then", "measured"), [(4, 2.1, 12.6, 5.99), (16, 6.5, 12.6, 1.90)])
def test_two_ways_by_chance(block: int, lanes: float, then: float, measured: float) -> None:
    """A kernel of two ways, chosen by each lane in each round: time with `block` threads over that with 32 (H100)."""
    p = of(1_000_000, block, 32, lanes)
    assert 1 / p.instructions == pytest.approx(measured, rel=0.2)
    assert p.instructions <= lanes / then * 1.25


def test_state_of_each_thread_in_shared_memory_keeps_their_number() -> None:
    """1.5 KiB a thread: 32 blocks of four threads fit, and four of 32."""
    p = of(1_000_000, 4, 32, 2.0, shared=4 * 1536)
    assert p.in_flight == pytest.approx(1.0) and p.factor < 0.6 and p.apart.factor < 0.4


def test_a_small_grid_has_no_more_threads_in_larger_blocks() -> None:
    p = of(3_200, 4, 32, 4.0)
    assert p.in_flight == pytest.approx(1.0)


def test_a_partial_second_warp() -> None:
    """36 threads are two warps of 18 lanes on average; 64 threads fill them."""
    p = of(1_000_000, 36, 64, 18.0)
    assert p.instructions == pytest.approx(18 / 32) and p.path == pytest.approx(1.0)
    assert p.in_flight == pytest.approx(64 / 36)


def test_whether_single_lanes_agree_cannot_be_seen() -> None:
    p = of(1_000_000, 1, 32, 1.0)
    assert p.apart.instructions == pytest.approx(32**-0.5) and p.apart.path == pytest.approx(32**0.5)


def test_what_does_not_fit_is_none() -> None:
    kernel = made(LIMITS, grid=1000, block=4, shared_static=100_000)
    assert packing(kernel, geometry(kernel), 32, 4.0) is None
