"""What operations need, counted by hand; words that are no problem."""

from __future__ import annotations

import pytest

from kscope.arch.chips import find
from kscope.model.errors import KscopeError
from kscope.napkin.asked import ask, build, number
from kscope.napkin.estimate import estimate
from kscope.napkin.measured import compare, parse_time
from kscope.napkin.operations import OPERATIONS
from kscope.napkin.roofs import roofs
from kscope.napkin.sweep import parse, sweep
from kscope.napkin.tiles import tiles


@pytest.mark.parametrize(
    ("words", "flop", "bytes_"),
    [
        ("gemm 128 256 64 bf16", 2 * 128 * 256 * 64, 2 * (128 * 64 + 64 * 256 + 128 * 256)),
        ("gemm 128x256x64 fp32 beta batch=3", 6 * 128 * 256 * 64, 12 * (128 * 64 + 64 * 256 + 2 * 128 * 256)),
        ("gemm 64 64 64 fp8", 2 * 64**3, 2 * 64 * 64 + 2 * 64 * 64),  # results of 2 bytes
        ("gemm 64 64 64 fp8 out=fp32", 2 * 64**3, 2 * 64 * 64 + 4 * 64 * 64),
        ("qgemm 1 4096 4096 fp16", 2 * 4096**2, 2 * 4096 + 4096**2 * (0.5 + 2 / 128) + 2 * 4096),
        ("qgemm 1 4096 4096 fp16 weights=int8 group=0", 2 * 4096**2, 4 * 4096 + 4096**2),
        ("attention 2 8 1024 64 bf16", 4 * 2 * 8 * 1024**2 * 64, 2 * 4 * 2 * 8 * 1024 * 64),
        ("attention 2 8 1024 64 bf16 causal kv_heads=2", 4 * 2 * 8 * (1024 * 1025 / 2) * 64,
         2 * (2 * 2 * 8 + 2 * 2 * 2) * 1024 * 64),
        ("attention 1 8 1 128 bf16 kv_length=4096", 4 * 8 * 4096 * 128, 2 * (2 * 8 * 128 + 2 * 8 * 4096 * 128)),
        ("attention 1 1 4 1 bf16 kv_length=8 causal", 4 * (4 * 8 - 6), 2 * (2 * 4 + 2 * 8)),
        ("attention-bwd 2 8 1024 64 bf16", 10 * 2 * 8 * 1024**2 * 64, 2 * 8 * 2 * 8 * 1024 * 64 + 4 * 2 * 8 * 1024),
        ("softmax 100 1000 fp32", 4e5, 8e5),
        ("layernorm 100 1000 bf16", 7e5, 4e5 + 4000),
        ("rmsnorm 100 1000 bf16", 4e5, 4e5 + 2000),
        ("elementwise 1e6 inputs=2 flop=3 fp16", 3e6, 6e6),
        ("conv 1 64 56 56 64 3 3 padding=1 fp16", 2 * 56 * 56 * 64 * 64 * 9, 2 * (2 * 64 * 56 * 56 + 64 * 64 * 9)),
        ("conv 1 64 56 56 64 3 3 stride=2 padding=1 groups=64 fp16", 2 * 28 * 28 * 64 * 9,
         2 * (64 * 56 * 56 + 64 * 28 * 28 + 64 * 9)),
        ("reduce 1M fp32", 2**20, 4 * 2**20 + 4),
        ("scan 1k fp32", 1024, 8192),
        ("transpose 1024 512 fp32", 0, 8 * 1024 * 512),
        ("moe 1 8 2 16 32 bf16", 2 * 2 * 3 * 16 * 32, 2 * (2 * 16 + 2 * 3 * 16 * 32)),
        ("custom 1e12 1e9", 1e12, 1e9),
    ],
)  # fmt: skip
def test_counted_by_hand(words: str, flop: float, bytes_: float) -> None:
    found = build(words)
    assert found.flop == pytest.approx(flop)
    assert found.bytes == pytest.approx(bytes_)


def test_experts_used_by_many_tokens_are_all() -> None:
    found = build("moe 100000 8 2 64 128 bf16")
    weights = next(o for o in found.operands if o.name == "weights")
    assert weights.bytes == pytest.approx(2 * 8 * 3 * 64 * 128)
    assert found.flop == 2 * 200000 * 3 * 64 * 128


def test_sizes() -> None:
    assert [number(t) for t in ("4096", "4k", "2M", "1e6", "1_000", "1,000")] == [4096, 4096, 2**21, 1e6, 1000, 1000]
    assert dict(ask("gemm 1x2x3 double").dims) == {"m": 1, "n": 2, "k": 3}
    assert ask("gemm 1 2 3 half", "fp8").dtype == "fp8"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "no operation named"),
        ("gem 1 2 3", "no operation 'gem'"),
        ("gemm 1 2", "gemm takes 3 sizes (m n k), not 2"),
        ("gemm 1 2 3 4", "not 4"),
        ("gemm 1 2 three", "'three' is no size"),
        ("gemm 1 2 0", "k of gemm cannot be 0"),
        ("gemm 1 2 -5", "k of gemm cannot be -5"),
        ("gemm 0.5 2 3", "m of gemm cannot be 0.5"),
        ("softmax 8 8.5", "cols of softmax cannot be 8.5"),
        ("gemm 1 2 inf", "k of gemm cannot be inf"),
        ("gemm 1 2 nan", "k of gemm cannot be nan"),
        ("gemm 1 2 1e300", "k of gemm cannot be 1e+300"),
        ("gemm 1 2 3 color=red", "gemm has no option 'color'"),
        ("gemm 1 2 3 batch=x", "'x' is no size"),
        ("qgemm 1 2 3 weights=int3", "weights of qgemm cannot be 'int3'"),
        ("attention 1 32 64 64 kv_heads=5", "32 heads cannot share 5"),
        ("conv 1 3 2 2 8 5 5", "has no result"),
        ("custom 0 0", "computes nothing"),
        ("elementwise 5 inputs=0 outputs=0 flop=0", "computes nothing"),
    ],
)
def test_words_that_are_no_problem(words: str, message: str) -> None:
    with pytest.raises(KscopeError) as fault:
        build(words)
    assert message in fault.value.message
    assert fault.value.status == 2
    assert fault.value.hint


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("chip", ["v100", "rtx_4090", "b100", "b300"])
def test_every_operation_on_every_kind_of_chip(name: str, chip: str) -> None:
    """Sizes of one, and big ones: every time is above zero and none is above what good kernels reach."""
    for size in (1, 256):
        sizes = [1 if s in ("r", "s", "top") else size for s in OPERATIONS[name].sizes]
        found = estimate(build([name, *map(str, sizes)]), roofs(find(chip)))
        assert 0 < found.floor_us <= found.attained_us
        for level in found.levels:
            assert 0 < level.peak_us <= level.attained_us
        for tile in tiles(found):
            assert tile.us >= max(tile.compute_us, tile.dram_us)
            assert 0 < tile.used <= 1


def test_what_a_chip_lacks_is_said() -> None:
    old = estimate(build("gemm 4096 4096 4096 bf16"), roofs(find("v100")))
    assert old.missing == ("bf16",)
    assert old.levels[0].name == "fp32 CUDA cores"
    assert any("no peak for bf16" in note for note in old.notes)
    double = estimate(build("gemm 512 512 512 fp64"), roofs(find("v100")))
    assert double.levels[0].name == "fp64 CUDA cores"
    assert double.levels[0].peak_per_s == pytest.approx(7.8e12, rel=0.01)


def test_small_work_is_overhead_and_small_data_may_be_warm() -> None:
    tiny = estimate(build("elementwise 1000 fp32"), roofs(find("h100")))
    assert (tiny.regime, tiny.limiter) == ("overhead", "launch")
    fits = estimate(build("elementwise 4M fp32"), roofs(find("h100")))
    assert fits.warm_us is not None
    assert fits.warm_us < fits.floor_us
    assert estimate(build("elementwise 64M fp32"), roofs(find("h100"))).warm_us is None
    assert "from L2" in compare(fits, 0.9 * fits.floor_us).verdict


def test_sweeps_find_the_crossover() -> None:
    asked, chip = ask("gemm 1 8192 8192 bf16"), roofs(find("h200"))
    found = sweep("m", (1, 64, 1024), lambda n, v: asked.having(n, float(v)).build(), chip)
    assert [e.limiter for e in found.estimates] == ["device memory", "device memory", "bf16 tensor cores"]
    (crossing,) = found.crossovers
    before, after = (estimate(asked.having("m", float(v)).build(), chip) for v in (crossing.value - 1, crossing.value))
    assert (before.limiter, after.limiter) == ("device memory", "bf16 tensor cores")
    assert parse("m=1,16,4") == ("m", (1, 4, 16))
    assert parse("M=3..20") == ("m", (3, 6, 12, 20))
    for text in ("m", "m=", "=3", "m=0,1", "m=9..3", "m=a", "m=1..1e300"):
        with pytest.raises(KscopeError):
            parse(text)
    with pytest.raises(KscopeError, match="no size 'q'"):
        sweep("q", (1, 2), lambda n, v: asked.having(n, float(v)).build(), chip)


def test_times() -> None:
    assert [parse_time(t) for t in ("5.1ms", "180us", "180 µs", "2s", "500ns", "42")] == [5100, 180, 180, 2e6, 0.5, 42]
    for text in ("", "fast", "-1us", "0", "nan", "inf"):
        with pytest.raises(ValueError):
            parse_time(text)
