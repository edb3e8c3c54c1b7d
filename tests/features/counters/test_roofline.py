"""The roofline point of kernels whose work is known by construction."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.counters.roofline import roofline
from kscope.features.facts import Facts
from tests.support import reports
from tests.support.edit import made

SGEMM = ("sgemm.naive", "sgemm.tiled", "sgemm.blocktile2d")
FLOP = 2 * 2048**3


@pytest.mark.parametrize("case", SGEMM)
def test_flops_of_a_matrix_product(case: str, facts: Callable[[str], Facts]) -> None:
    """2048^3 multiply-adds over the measured time, by hand."""
    f = facts(case)
    point = f.counters.roofline
    assert point is not None and point.main is not None and f.counters.launch.duration_us is not None
    assert point.main.precision == "fp32"
    assert point.main.flops == pytest.approx(FLOP / (f.counters.launch.duration_us * 1e-6), rel=0.02)
    assert not any(c.precision.startswith("tensor") for c in point.ceilings)
    assert all(c.flops < 0.01 * c.peak for c in point.ceilings[1:]), "HFMA2 that moves a constant is no FP16 kernel"


@pytest.mark.parametrize("case", SGEMM)
def test_intensity_and_ridge(case: str, facts: Callable[[str], Facts]) -> None:
    f = facts(case)
    point, m = f.counters.roofline, f.kernel.metrics
    assert point is not None and point.main is not None and point.bandwidth is not None
    moved = m["dram__bytes_read.sum"] + m["dram__bytes_write.sum"]
    assert moved >= 2 * 2048 * 2048 * 4, "both inputs come from device memory at least once"
    assert point.intensity == pytest.approx(FLOP / moved, rel=0.02)
    assert point.ridge == pytest.approx(point.main.peak / point.bandwidth)
    assert point.share_of_roof == pytest.approx(point.main.flops / point.main.peak)


@pytest.mark.parametrize("case", [c for c in reports.chosen_cases() if c != "launch_bound.tiny"])
def test_peaks_of_the_chip(case: str, facts: Callable[[str], Facts]) -> None:
    """H200: 4.8 TB/s of HBM3e, H100: 3.35. 132 SMs of 128 FP32 lanes at the clock of the capture: at most
    1.98 GHz (noise: 3 % in kernels of microseconds, 7 % where cycles and time were counted in passes of their own)."""
    point = facts(case).counters.roofline
    assert point is not None
    h100 = "H100" in facts(case).kernel.device.name
    assert point.bandwidth == pytest.approx(3.35e12 if h100 else 4.8e12, rel=0.01)
    for ceiling in point.ceilings:
        if ceiling.precision == "fp32":
            assert 132 * 128 * 2 * 1.0e9 < ceiling.peak <= 132 * 128 * 2 * 1.98e9 * 1.07
        if ceiling.precision == "fp64":
            assert 132 * 64 * 2 * 1.0e9 < ceiling.peak <= 132 * 64 * 2 * 1.98e9 * 1.07
        assert 0 < ceiling.flops <= ceiling.peak
    assert 0 < point.share_of_roof <= 1


def test_triad(facts: Callable[[str], Facts]) -> None:
    """Three arrays of 64 Mi floats pass once: bytes a second, and 2 operations for every 12 bytes."""
    f = facts("dram_bound.triad")
    point = f.counters.roofline
    assert point is not None and f.counters.launch.duration_us is not None and point.intensity is not None
    moved = 3 * 4 * 2**26 / (f.counters.launch.duration_us * 1e-6)
    assert point.bytes_per_s == pytest.approx(moved, rel=0.05), "the last writes stay in L2"
    assert point.intensity == pytest.approx(2 / 12, rel=0.05)
    assert 0.85 < point.share_of_roof < 0.95


def test_precision_of_doubles(facts: Callable[[str], Facts]) -> None:
    slow, fast = facts("fp64_literal.slow").counters.roofline, facts("fp64_literal.fast").counters.roofline
    assert slow is not None and slow.main is not None and slow.main.precision == "fp64"
    assert fast is not None and fast.main is not None and fast.main.precision == "fp32"


def test_tensor_types_add_up() -> None:
    """wgmma counts under hgmma, mma under hmma: one type, one ceiling, the higher peak."""
    prefix, rate, peak = "sm__ops_path_tensor_op_", ".sum.per_cycle_elapsed", ".sum.peak_sustained"
    metrics = {
        prefix + "hgmma_src_fp16_sparsity_off" + rate: 300.0, prefix + "hgmma_src_fp16_sparsity_off" + peak: 4096.0,
        prefix + "hmma_src_fp16_sparsity_off" + rate: 100.0, prefix + "hmma_src_fp16_sparsity_off" + peak: 2048.0,
        "smsp__cycles_elapsed.avg.per_second": 1e9, "gpu__time_duration.sum": 1000.0,
    }  # fmt: skip
    point = roofline(made(metrics))
    assert point is not None and point.main is not None
    assert (point.main.precision, point.main.flops, point.main.peak) == ("tensor fp16", 400e9, 4096e9)


def test_nothing_collected() -> None:
    assert roofline(made({})) is None


def test_only_traffic() -> None:
    point = roofline(made({"dram__bytes_read.sum": 3000.0, "gpu__time_duration.sum": 1000.0}))
    assert point is not None and point.bytes_per_s == pytest.approx(3e9)
    assert (point.main, point.intensity, point.ridge, point.bandwidth, point.share_of_roof) == (
        None,
        None,
        None,
        None,
        0,
    )


@pytest.mark.parametrize("case", ["digits.thread_rows", "csr.thread"])
def test_constants_that_the_fp16_pipe_moves_are_no_work(case: str, facts: Callable[[str], Facts]) -> None:
    """HFMA2 with two zeros is how the compiler writes a constant: a kernel of integers or floats has no FP16 roof."""
    known = facts(case)
    counted, point = roofline(known.kernel), known.counters.roofline
    assert counted is not None and point is not None
    assert "fp16" in {c.precision for c in counted.ceilings}, "the counter has them"
    assert "fp16" not in {c.precision for c in point.ceilings} and point.counted


def test_work_of_halves_stays_work(facts: Callable[[str], Facts]) -> None:
    known = facts("hgemm.packed")
    counted, point = roofline(known.kernel), known.counters.roofline
    assert counted is not None and point is not None and counted.main is not None and point.main is not None
    assert point.main.precision == "fp16" and point.main.flops > 0.99 * counted.main.flops
