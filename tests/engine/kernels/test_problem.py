"""`analyze --problem`: what kernels of the captures did beside what their problem needs."""

from __future__ import annotations

import json
from functools import cache

import pytest

from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import ProblemFit, to_json
from kscope.napkin.asked import build
from kscope.reports import Options, render
from tests.support.reports import fixture


@pytest.fixture(autouse=True)
def no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSCOPE_STATE_DIR", "")


@cache
def fit(case: str, words: str) -> ProblemFit:
    (kernel,) = analyze_paths([fixture(case)], problem=build(words)).kernels
    assert isinstance(kernel.problem, ProblemFit)
    return kernel.problem


def test_reads_its_operands_again_and_again() -> None:
    """A block of 32 x 32 outputs reads strips of 32 rows: L2 hands out 4096 / 32 times each operand, but for what L1
    keeps. Device memory sees the operands 63 times: each wave of blocks has a column of its own."""
    seen = fit("gemm_f32.shared", "gemm 4096 4096 4096 fp32")
    assert seen.flop_done == pytest.approx(seen.flop_needed, rel=0.01)
    assert seen.read_bytes_needed == 2 * 4 * 4096**2
    assert seen.l2_read_bytes is not None
    assert seen.l2_read_bytes / seen.read_bytes_needed == pytest.approx(128, rel=0.1)
    assert seen.read_bytes_done is not None
    assert seen.read_bytes_done / seen.read_bytes_needed == pytest.approx(62.6, rel=0.01)
    said = " ".join(seen.says)
    assert "as if it read A 124.1 times or B 124.1 times" in said
    assert "as square tiles of 34 would" in said


@pytest.mark.parametrize(
    ("case", "words", "tile"),
    [
        ("gemm_f32.warptile", "gemm 4096 4096 4096 fp32", 128),
        ("gemm_bf16.swizzled", "gemm 4096 4096 4096 bf16", 128),
        ("gemm_bf16.wgmma", "gemm 4096 4096 4096 bf16", 171),  # 128 x 256: 2 / (1 / 128 + 1 / 256)
    ],
)
def test_the_tile_shows_in_what_l2_hands_out(case: str, words: str, tile: int) -> None:
    (told,) = [text for text in fit(case, words).says if "square tiles of" in text]
    assert int(told.rpartition(" tiles of ")[2].split()[0]) == pytest.approx(tile, rel=0.15)


def test_headroom_of_the_problem_and_of_the_code() -> None:
    """The three-pass softmax is near the roof of the bytes that it moves, far from that of those that it has to."""
    seen = fit("softmax_rows.threepass", "softmax 8192 8192 fp32")
    assert seen.headroom == pytest.approx(2.1, abs=0.15)
    assert seen.headroom_code is not None
    assert any("reads 3.0" in text or "reads 3.1" in text for text in seen.says)
    good = fit("dram_bound.triad", "elementwise 64M inputs=2 outputs=1 fp32 flop=2")
    assert good.headroom == pytest.approx(1.0, abs=0.05)
    assert "reads from device memory what it must, once" in good.says


def test_cuda_cores_where_tensor_cores_could() -> None:
    seen = fit("gemm_bf16.ffma", "gemm 4096 4096 4096 bf16")
    assert any("on the CUDA cores what bf16 tensor cores could" in text for text in seen.says)
    assert not any("CUDA cores what" in text for text in fit("gemm_bf16.wgmma", "gemm 4096 4096 4096 bf16").says)


def test_another_problem_has_no_headroom() -> None:
    seen = fit("gemm_f32.vector", "gemm 8192 8192 8192 fp32")
    assert seen.headroom is None
    assert "executes 0.12 of the FLOP: only a part of this problem, or another algorithm" in seen.says
    assert any("times the FLOP needed" in t for t in fit("gemm_f32.vector", "gemm 2048 2048 2048 fp32").says)


def test_every_format_says_it_and_only_where_asked() -> None:
    analysis = analyze_paths([fixture("gemm_f32.vector")], problem=build("gemm 4096 4096 4096 fp32"))
    for kind in ("text", "md", "llm"):
        text = " ".join(render(kind, analysis, Options(budget=4000)).split())
        assert "needs 137 GFLOP and 201 MB of H200 SXM 141 GB" in text.replace("\\", ""), kind
        assert "as if it read" in text, kind
    assert json.loads(to_json(analysis))["kernels"][0]["problem"]["flop_needed"] == 2 * 4096**3
    plain = analyze_paths([fixture("gemm_f32.vector")])
    assert "problem" not in json.loads(to_json(plain))["kernels"][0]


def test_a_chip_that_is_not_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates then come from the device's own attributes: the same H200, of another name."""
    import kscope.engine.kernels.problem as module

    known = fit("dram_bound.triad", "gemm 4096 4096 4096 bf16")
    monkeypatch.setattr(module, "of_device", lambda name: None)
    (kernel,) = analyze_paths([fixture("dram_bound.triad")], problem=build("gemm 4096 4096 4096 bf16")).kernels
    assert isinstance(kernel.problem, ProblemFit)
    assert kernel.problem.floor_us == pytest.approx(known.floor_us, rel=0.01)
    assert kernel.problem.chip == "NVIDIA H200"


def test_the_schema_has_it() -> None:
    import jsonschema

    from kscope.model.contract.analysis import json_schema

    analysis = analyze_paths([fixture("gemm_f32.vector")], problem=build("gemm 4096 4096 4096 fp32"))
    validator = jsonschema.Draft202012Validator(json_schema())
    value = json.loads(to_json(analysis))
    validator.validate(value)
    del value["kernels"][0]["problem"]["floor_us"]
    assert not validator.is_valid(value)
