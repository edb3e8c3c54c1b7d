"""Launch geometry against cases counted by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.counters.launch import Geometry, geometry
from kscope.model.kernel import Kernel
from tests.support.edit import made

LIMITS = {
    "launch__occupancy_limit_registers": 4.0, "launch__occupancy_limit_shared_mem": 7.0,
    "launch__occupancy_limit_blocks": 32.0, "launch__occupancy_limit_warps": 8.0,
}  # fmt: skip


def shape(grid: int) -> Geometry:
    return geometry(made(LIMITS, grid=grid, sms=100, block=256))


@pytest.mark.parametrize(
    ("grid", "waves", "tail_gain", "idle"),
    [
        (400, 1.0, 1.0, 0),  # 100 SMs of 4 blocks: exactly one wave
        (401, 1.0025, 2 / 1.0025, 0),  # one block more: twice the time
        (600, 1.5, 2 / 1.5, 0),
        (800, 2.0, 1.0, 0),
        (200, 0.5, 2.0, 0),  # half a wave
        (60, 0.15, 1 / 0.15, 40),
        (1, 0.0025, 400.0, 99),
        (100_001, 250.0025, 251 / 250.0025, 0),
    ],
)
def test_waves(grid: int, waves: float, tail_gain: float, idle: int) -> None:
    g = shape(grid)
    assert g.blocks_per_sm == 4 and g.limits["registers"] == 4 and g.limits["block size"] == 8
    assert (g.waves, g.tail_gain, g.idle_sms) == (pytest.approx(waves), pytest.approx(tail_gain), idle)


def test_warps() -> None:
    g = shape(10)
    assert (g.warps_per_block, g.warps, g.resident_warps) == (8, 80, 32)
    assert geometry(made(LIMITS, grid=3, block=33)).warps_per_block == 2, "the last warp is partial"


def test_balance() -> None:
    g = geometry(
        made({"sm__cycles_elapsed.max": 1000.0, "sm__cycles_active.avg": 300.0, "sm__cycles_active.max": 900.0})
    )
    assert (g.cycles, g.active, g.active_max) == (1000, 0.3, 0.9)
    assert g.imbalance == pytest.approx(3) and g.outside == pytest.approx(0.1)


def test_clocks_that_disagree() -> None:
    """Counters of different passes: never more than all of the time."""
    g = geometry(
        made({"sm__cycles_elapsed.max": 1000.0, "sm__cycles_active.avg": 1010.0, "sm__cycles_active.max": 1020.0})
    )
    assert (g.active, g.active_max, g.imbalance, g.outside) == (1, 1, 1, 0)


def test_nothing_collected() -> None:
    g = geometry(made({}, grid=7, sms=0))
    assert (g.limits, g.blocks_per_sm, g.cycles, g.duration_us) == ({}, 1, None, None)
    assert (g.active, g.outside, g.imbalance) == (1, 0, 1)
    assert g.waves == 7 and g.sms == 1, "an unknown device is counted as one SM, not divided by zero"


@pytest.mark.parametrize(
    ("case", "blocks", "per_sm", "waves", "idle"),
    [
        ("tail_effect.slow", 133, 1, 133 / 132, 0), ("tail_effect.fast", 132, 1, 1.0, 0),
        ("small_grid.slow", 8, 8, 8 / 8 / 132, 124), ("launch_bound.tiny", 1, 32, 1 / 32 / 132, 131),
        ("sgemm.blocktile2d", 256, 2, 256 / 264, 0), ("occupancy_smem.slow", 2112, 1, 16.0, 0),
        ("barrier.slow", 1056, 3, 1056 / 396, 0),
    ],
)  # fmt: skip
def test_captures(
    case: str, blocks: int, per_sm: int, waves: float, idle: int, kernel: Callable[[str], Kernel]
) -> None:
    g = geometry(kernel(case))
    assert (g.blocks, g.blocks_per_sm, g.sms, g.idle_sms) == (blocks, per_sm, 132, idle)
    assert g.waves == pytest.approx(waves, rel=0.01, abs=1e-3)


def test_tail_of_the_capture_is_the_measured_one(kernel: Callable[[str], Kernel]) -> None:
    """133 equal blocks on 132 SMs: what whole waves would save is what the SMs' own clocks show."""
    g = geometry(kernel("tail_effect.slow"))
    assert g.tail_gain == pytest.approx(2 / (133 / 132), rel=1e-3)
    assert g.imbalance == pytest.approx(g.tail_gain, rel=0.01)
    assert geometry(kernel("small_grid.slow")).imbalance == pytest.approx(132 / 8, rel=0.02)


def test_even_work_is_told_from_instructions() -> None:
    counted = {"sm__inst_executed.avg.per_cycle_elapsed": 1.0, "sm__inst_executed.max.per_cycle_elapsed": 1.4}
    assert not geometry(made(LIMITS | counted, grid=400, sms=100, block=256)).even
    assert geometry(made(LIMITS | counted, grid=150, sms=100, block=256)).even, "two blocks, 1.5 on average"
    assert not shape(400).even, "not counted"
