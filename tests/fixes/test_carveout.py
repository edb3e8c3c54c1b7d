"""Blocks that do not fit into what was set aside of an SM as shared memory."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.counters.occupancy_limits import limits_of, pressure
from kscope.model.contract.analysis import Finding
from kscope.model.kernel import Kernel
from tests.support.edit import with_metrics

AS_NCU_COUNTS = ("bank_conflict.slow", "fft1024.padded", "calibrate.block128", "centroids.each", "atomics.fast")


def squeezed(kernel: Kernel, carved: int, blocks: int) -> Kernel:
    """The kernel as it would be launched with a preference for a small share of shared memory."""
    sizes = {"launch__shared_mem_config_size": float(carved), "launch__occupancy_limit_shared_mem": float(blocks)}
    launch = msgspec.structs.replace(kernel.launch, carved=carved)
    return msgspec.structs.replace(with_metrics(kernel, sizes), launch=launch)


def low(kernel: Kernel) -> Finding | None:
    return next((f for f in analyze_kernel(kernel, "x").findings if f.code == "LAT301"), None)


@pytest.mark.parametrize("case", AS_NCU_COUNTS)
def test_blocks_of_what_is_set_aside_are_counted_as_ncu_does(case: str, kernel: Callable[[str], Kernel]) -> None:
    one = kernel(case)
    launch, chip = one.launch, limits_of(90)
    assert launch.carved is not None and chip is not None and launch.carved // 1024 in chip["carveouts_kib"]
    shared = launch.shared_static + launch.shared_dynamic
    told = one.metrics["launch__occupancy_limit_shared_mem"]
    found = pressure(90, 16, 32, "launch", shared, launch.carved)
    assert found is not None and found.blocks == min(told, chip["blocks"])


def test_a_small_share_is_told_with_the_line_that_mends_it(kernel: Callable[[str], Kernel]) -> None:
    finding = low(squeezed(kernel("calibrate.block128"), 132 * 1024, 1))
    assert finding is not None and "carve-out" in finding.fix and "Only 132 KiB" in finding.why
    fix = next(f for f in finding.fixes if f.kind == "carveout")
    # 97,024 bytes a block with the system's share: two need 189.5 KiB, 196 is the next size, 85 % of 228 is 193.8
    assert fix.parameters == {"percent": 85, "kib": 196}
    assert "cudaFuncAttributePreferredSharedMemoryCarveout, 85)" in fix.code
    assert (fix.proof[0].before, fix.proof[0].after) == (4, 8)
    assert fix.conditions[0].state == "proved" and fix.price == finding.estimate
    assert fix.costs == ["64 KiB less of L1 on each SM"]


@pytest.mark.parametrize("size", [8, 16, 32, 64, 100, 132, 164, 196, 228])
def test_the_percentage_asks_for_no_smaller_size_and_no_larger(size: int) -> None:
    chip = limits_of(90)
    assert chip is not None
    asked = 100 * size * 1024 // chip["shared"] * chip["shared"] / 100 / 1024
    assert next(kib for kib in chip["carveouts_kib"] if kib >= asked) == size


@pytest.mark.parametrize("case", ["calibrate.block1024", "calibrate.block128", "occupancy_smem.slow", "barrier.slow"])
def test_launches_as_the_driver_sets_them_up_are_told_nothing(case: str, kernel: Callable[[str], Kernel]) -> None:
    """It sets aside what the blocks take: shared memory itself, or registers, limit these."""
    finding = low(kernel(case))
    assert finding is None or ("carve-out" not in finding.fix and all(f.kind != "carveout" for f in finding.fixes))


def test_a_share_that_no_larger_one_betters_is_left(kernel: Callable[[str], Kernel]) -> None:
    """200 KiB a block: one fits, whatever is set aside."""
    finding = low(squeezed(kernel("occupancy_smem.slow"), 228 * 1024, 1))
    assert finding is not None and all(f.kind != "carveout" for f in finding.fixes)
