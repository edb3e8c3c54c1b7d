"""The estimates beside what kernels take: our own captures on an H200, and published figures of other chips."""

from __future__ import annotations

from functools import cache

import pytest

from kscope.arch.chips import find
from kscope.napkin.asked import build
from kscope.napkin.estimate import Estimate, estimate
from kscope.napkin.measured import compare
from kscope.napkin.roofs import Roofs, roofs
from kscope.napkin.tiles import best, tiles
from tests.support.labels import TIMES


@cache
def on(chip: str) -> Roofs:
    return roofs(find(chip))


def measured_us(case: str) -> float:
    """Median of 15 launches without the profiler."""
    return TIMES[case]


def of(words: str, chip: str = "h200") -> Estimate:
    return estimate(build(words), on(chip))


AT_ROOF = {
    "dram_bound.triad": "elementwise 64M inputs=2 outputs=1 flop=2 fp32",
    "sum_roof.tree": "reduce 64M to=1024 fp32",
    "rowsum_roof.double": "reduce 64M to=65536 fp32",
    "normalize3.base": "elementwise 64M flop=5 fp32",
    "affine_roof.linear": "elementwise 64M flop=2 fp32",
    "narrow_loads.fast": "elementwise 128M fp16",
    "requantize_i8.base": "elementwise 256M int8",
    "layernorm_bf16.vec8": "layernorm 32768 4096 bf16",
    "fma_roof.eightwarps": "custom 17.717e9 1 fp32",
    "ws_gemm.best": "gemm 4096 4096 4096 bf16",
}
"""Kernels whose unit is full by their reports, as the problem that they solve."""

SLOWER = {
    **{f"gemm_f32.{rung}": "gemm 4096 4096 4096 fp32"
       for rung in ("naive", "coalesced", "shared", "reg1d", "reg2d", "vector", "warptile")},
    **{f"gemm_bf16.{rung}": "gemm 4096 4096 4096 bf16" for rung in ("ffma", "mma", "swizzled", "wgmma")},
    **{f"mm.{rung}": "gemm 2048 2048 2048 fp32" for rung in ("coalesced", "reg1d", "vec4")},
    **{f"sgemm.{rung}": "gemm 2048 2048 2048 fp32" for rung in ("naive", "tiled", "blocktile2d")},
    "rope_bf16.pairs": "elementwise 64M bf16 flop=3",
    "adam.step": "elementwise 8M inputs=4 outputs=3 flop=12 fp32",
    "hgemm.wmma_padded": "gemm 4096 4096 4096 fp16",
    "triton_matmul.stage1": "gemm 4096 4096 4096 fp16",
    "triton_matmul.stage4": "gemm 4096 4096 4096 fp16",
    "triton_deep.tiles16": "gemm 512 512 16384 fp16",
    "ws_gemm.k256": "gemm 4096 4096 256 bf16",
    "mha.plain": "attention 1 32 2048 64 bf16",
    "mha.swizzled": "attention 1 32 2048 64 bf16",
    "softmax_rows.threepass": "softmax 8192 8192 fp32",
    "softmax_rows.registers": "softmax 8192 8192 fp32",
    "triton_softmax.once": "softmax 4096 16384 fp32",
    "triton_rowsum.along": "reduce 64M to=65536 fp32",
    "bank_conflict.slow": "transpose 8192 8192 fp32",
    "bank_conflict.fast": "transpose 8192 8192 fp32",
    "transpose_roof.pitch34": "transpose 8192 8192 fp32",
    "layernorm_bf16.scalar": "layernorm 32768 4096 bf16",
    "scan1m.oneblock": "scan 1M fp32",
    "tensor_loop.wgmma": "custom 70.867e9 0 fp16",
    "tensor_loop.mma_sync": "custom 70.867e9 0 fp16",
}  # fmt: skip


@pytest.mark.parametrize("case", [*AT_ROOF, *SLOWER])
def test_the_floor_is_never_above_the_measured_time(case: str) -> None:
    found = of({**AT_ROOF, **SLOWER}[case])
    assert found.floor_us <= measured_us(case)


@pytest.mark.parametrize("case", AT_ROOF)
def test_kernels_at_their_roof_are_within_ten_percent(case: str) -> None:
    found = of(AT_ROOF[case])
    assert found.attained_us == pytest.approx(measured_us(case), rel=0.10)
    assert "at its roof" in compare(found, measured_us(case)).verdict


def test_the_regime_is_that_of_the_report() -> None:
    for case, words in AT_ROOF.items():
        assert of(words).regime == ("compute" if case.split(".")[0] in ("fma_roof", "ws_gemm") else "memory"), case


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("gemm_f32.naive", "one factor uncoalesced"),
        ("gemm_f32.coalesced", "every multiply-add loads both factors through L1"),
        ("gemm_f32.shared", "every multiply-add loads both factors through L1"),
        ("gemm_f32.reg1d", "used 2 times"),
        ("gemm_f32.vector", "used 4 times"),
        ("softmax_rows.threepass", "2 passes over the data"),
    ],
)
def test_what_explains_a_slow_kernel(case: str, told: str) -> None:
    """The nearest story is what the kernel does: an uncoalesced one, no reuse, a thread tile of 8 x 1 (each value of
    two loads used twice, on average), of 8 x 8 with wide loads; a softmax that reads three times and writes once."""
    seen = compare(of({**AT_ROOF, **SLOWER}[case]), measured_us(case))
    assert seen.stories, seen
    assert told in seen.stories[0].what


def test_the_best_tile_is_near_what_a_good_product_takes() -> None:
    """Tiles of 128 x 256, as gemm_bf16.wgmma and ws_gemm.best have them, in 3.88 waves."""
    found = of("gemm 4096 4096 4096 bf16")
    tile = next(t for t in tiles(found) if (t.m, t.n) == (128, 256))
    assert tile.waves == pytest.approx(512 / 132)
    assert tile.us == pytest.approx(measured_us("ws_gemm.best"), rel=0.05)
    assert tile.us == pytest.approx(measured_us("gemm_bf16.wgmma"), rel=0.10)
    assert best(tiles(found)) is not None
    small = next(t for t in tiles(found) if (t.m, t.n) == (64, 64))
    assert small.limiter == "L2"
    assert small.us > 2 * tile.us


def test_published_napkin() -> None:
    """Boehm, "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance": 4092^3 with C read and written is
    137 GFLOP over 268 MB."""
    found = build("gemm 4092 4092 4092 fp32 beta")
    assert found.flop == pytest.approx(137e9, rel=0.002)
    assert found.bytes == pytest.approx(268e6, rel=0.002)
    assert found.intensity == pytest.approx(511.5, rel=0.001)


@pytest.mark.parametrize(
    ("chip", "shape", "tflops"),
    [
        # stas00/ml-engineering, Maximum Achievable Matmul FLOPS, BF16: the best shape that cuBLAS was found to have.
        ("a100", "1024 10240 5120", 271.2),
        ("a100_pcie", "2048 5120 6144", 252.9),
        ("gh200", "1024 15360 4096", 828.6),
        ("h100", "2048 2048 13312", 794.5),
        ("b200", "1792 16128 3072", 1745.0),
        ("b300", "12288 18432 1024", 1769.0),
        ("gb200", "4096 9728 2048", 1822.0),
    ],
)
def test_published_cublas(chip: str, shape: str, tflops: float) -> None:
    found = of(f"gemm {shape} bf16", chip)
    us = found.problem.flop / tflops / 1e6
    assert found.floor_us <= us
    assert found.regime == "compute"
    assert found.attained_us == pytest.approx(us, rel=0.10)


@pytest.mark.parametrize(
    ("chip", "tflops", "words"),
    [
        # Dao, FlashAttention-2 (arXiv 2307.08691), figure 4: 16k tokens, head dimension 128, no mask, on an A100: up to
        # 230 TFLOP/s forward; Shah et al., FlashAttention-3 (arXiv 2407.08608): up to 740 on an H100. From memory.
        ("a100", 230.0, "attention 1 16 16384 128 fp16"),
        ("h100", 740.0, "attention 1 16 16384 128 fp16"),
    ],
)
def test_published_attention(chip: str, tflops: float, words: str) -> None:
    found = of(words, chip)
    us = found.problem.flop / tflops / 1e6
    assert found.problem.flop == 4 * 16 * 16384**2 * 128
    assert found.floor_us <= us
    assert found.attained_us <= us


def test_exponentials_of_attention_weigh_as_much_as_its_products_on_blackwell() -> None:
    """tcgen05 doubled the products a clock, not the exponentials: at a head dimension of 128 they take as long."""
    names = {level.name: level.peak_us for level in of("attention 1 16 8192 128 bf16", "b200").levels}
    assert names["special functions"] == pytest.approx(names["bf16 tensor cores"], rel=0.01)
    before = {level.name: level.peak_us for level in of("attention 1 16 8192 128 bf16", "h200").levels}
    assert before["special functions"] == pytest.approx(0.5 * before["bf16 tensor cores"], rel=0.01)
