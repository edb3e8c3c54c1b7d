"""Our occupancy against NVIDIA's own figures in every capture, and the steps around a register count."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.counters.occupancy_limits import limits_of, pressure
from kscope.model.kernel import Kernel
from tests.support import reports

SINGLE = reports.chosen_cases()


@pytest.mark.parametrize("case", SINGLE)
def test_occupancy_is_what_nvidia_says(case: str, kernel: Callable[[str], Kernel]) -> None:
    one = kernel(case)
    launch, metrics = one.launch, one.metrics
    shared = launch.shared_static + launch.shared_dynamic
    found = pressure(one.device.sm, launch.registers, launch.threads, "launch", shared, launch.carved)
    theirs = metrics.get("sm__maximum_warps_per_active_cycle_pct")
    assert found is not None and theirs is not None
    assert 100 * found.warps / found.warps_max == pytest.approx(theirs)
    limit = metrics.get("launch__occupancy_limit_registers")
    by_registers = pressure(one.device.sm, launch.registers, launch.threads, "launch")
    assert by_registers is not None and limit is not None
    assert by_registers.blocks <= limit


def test_steps_are_where_the_blocks_change() -> None:
    found = pressure(90, 40, 256, "launch")
    assert found is not None and (found.blocks, found.warps, found.limits) == (6, 48, ("registers",))
    assert [(s.registers, s.warps) for s in found.steps] == [(32, 64), (40, 48), (48, 40)]
    for step in found.steps:
        here, beyond = pressure(90, step.registers, 256, ""), pressure(90, step.registers + 1, 256, "")
        assert here is not None and beyond is not None
        assert here.warps == step.warps > beyond.warps


def test_no_step_beyond_another_limit() -> None:
    """Eight blocks of 28 KB are all that fit: fewer registers would bring no ninth."""
    found = pressure(90, 48, 128, "launch", 28 << 10)
    assert found is not None and found.blocks == 7 and found.limits == ("shared memory",)
    assert max(s.blocks for s in found.steps) == 7


@pytest.mark.parametrize(("sm", "registers", "threads"), [(60, 32, 256), (90, 0, 256), (90, 255, 1024)])
def test_no_answer_rather_than_a_wrong_one(sm: int, registers: int, threads: int) -> None:
    assert pressure(sm, registers, threads, "launch") is None


def test_targets_between_the_entries() -> None:
    assert limits_of(121) == limits_of(120) and limits_of(103) == limits_of(100) and limits_of(60) is None
