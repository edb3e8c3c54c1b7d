"""FP32 products that TF32 would shorten: what they are, what that would bring, and where nothing is said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kscope.engine.run import analyze_paths
from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.operations.single_precision import CONVOLUTION, MATMUL, product_of, tf32_chip
from kscope.model.contract.analysis import Finding, TimelineAnalysis
from kscope.parsers.timeline import kineto
from tests.support import traces

CODE = "OVH614"
TF32_CONV = (
    "sm90_xmma_wgrad_indexed_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x64x32_warpgroupsize1x1x1_g1"
    "_execute_segment_k_on_kernel__5x_cudnn"
)
FFMA = "sm80_xmma_{}_f32f32_f32f32_f32_tn_n_tilesize256x64x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ampere_sgemm_128x64_nn", (MATMUL, True)),
        ("volta_sgemm_32x32_sliced1x4_tn", (MATMUL, True)),
        (FFMA.format("gemm") + "__5x_cublas", (MATMUL, True)),
        (FFMA.format("dgrad_implicit_gemm") + "__5x_cudnn", (CONVOLUTION, True)),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(Params)", (MATMUL, True)),
        ("cudnn_infer_ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", (CONVOLUTION, True)),
        ("void implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5, 1, false, true>(int)", (CONVOLUTION, True)),
        (TF32_CONV, (CONVOLUTION, False)),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(Params)", (MATMUL, False)),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_stage3_tensor16x8x8_kernel", (MATMUL, False)),
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", (MATMUL, False)),
        ("sgemm_blocktile(int, int, int, float const*)", None),  # the author's own: no switch of a library moves it
        ("void gemmSN_TN_kernel<float, 128, 16, 2, 4, 8, 9, false>(int)", None),  # few columns: memory bounds it
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, bf16>>(Params)", None),
        ("void at::native::vectorized_elementwise_kernel<4, bfloat16_copy_kernel_cuda>(int)", None),
    ],
)
def test_what_names_tell(name: str, said: tuple[str, bool] | None) -> None:
    assert product_of(name) == said


def test_chips_without_tf32_and_several_kinds_of_devices() -> None:
    chip, ratio = tf32_chip(["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"])
    assert chip is not None and 7 < ratio < 8
    assert tf32_chip(["Tesla V100-SXM2-16GB"])[1] == 0
    assert tf32_chip(["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"]) == (None, 0.0)
    assert tf32_chip(["AMD Instinct MI300X"]) == (None, 0.0) == tf32_chip([])


def analyzed(path: Path) -> TimelineAnalysis:
    return analyze_paths([path]).timelines[0]


def found(one: TimelineAnalysis) -> Finding | None:
    assert not one.errors
    return next((f for f in one.findings if f.code == CODE), None)


def edited(folder: Path, *changes: tuple[str, str]) -> Path:
    """The recording of FP32 products with parts of its text exchanged; each must occur."""
    text = traces.plain("fp32_products").decode()
    for pattern, new in changes:
        text, count = re.subn(pattern, new, text)
        assert count, pattern
    (target := folder / "t.json").write_text(text)
    return target


def test_sizes_bound_what_tf32_brings() -> None:
    one = analyzed(traces.path("fp32_products"))
    said = found(one)
    assert said is not None and one.findings[0] is said, "nothing in this program is worth more"
    known = {e.metric: e.value for e in said.evidence}
    assert known["sizes known"] == 1 and known["FP32 products"] is not None and known["FP32 products"] > 0.85
    # 4096 x 4096 x 4096 at 494.7 TFLOP/s are 0.278 ms of 2.65 ms; an H100 reaches some 400 TFLOP/s, 0.34 ms
    products, rest = known["FP32 products"], 1 - known["FP32 products"]
    real = 1 / (rest + products * 0.34 / 2.65)
    estimate = said.estimate
    assert estimate is not None and estimate.low < estimate.speedup < real < estimate.high
    assert estimate.high <= 1 / (rest + products * 0.278 / 2.65) + 0.05, "never beyond TF32's peak"
    assert "10 bits" in said.fix and "is that allowed" in said.fix and "float32_matmul_precision" in said.fix
    assert said.regime == "compute" and said.confidence == 0.75


def test_without_sizes_from_nothing_to_the_ratio_of_the_peaks(tmp_path: Path) -> None:
    said = found(analyzed(edited(tmp_path, (r'"Input Dims"', '"Other"'))))
    whole = found(analyzed(traces.path("fp32_products")))
    assert said is not None and said.estimate is not None and whole is not None and whole.estimate is not None
    assert said.estimate.low == 1 and said.confidence < 0.5 and "record_shapes" in said.why
    assert said.estimate.speedup < whole.estimate.speedup
    assert said.estimate.high == pytest.approx(whole.estimate.high, rel=0.05)
    nsys = found(analyzed(traces.path("busy")))
    assert nsys is not None and nsys.estimate is not None and nsys.estimate.low == 1 and "record_shapes" not in nsys.why


def test_products_that_memory_bounds_gain_nothing(tmp_path: Path) -> None:
    thin = edited(tmp_path, (r"\[4096, ?4096\]", "[4096, 4096000]"))  # sizes at which memory takes longer than FLOP
    data = json.loads(thin.read_text())
    for e in data["traceEvents"]:
        dims = e.get("args", {}).get("Input Dims")
        if dims and e["name"] in ("aten::mm", "aten::addmm"):
            matrices = [i for i, d in enumerate(dims) if len(d) == 2]
            dims[matrices[0]], dims[matrices[1]] = [200_000_000, 8], [8, 8]
    thin.write_text(json.dumps(data))
    one = analyzed(thin)
    assert found(one) is None and CODE in one.passed


def test_silent_where_tf32_or_less_runs_already(tmp_path: Path) -> None:
    view = TimelineView(kineto.read(traces.path("cnn_train")))
    single = view.single
    assert single is not None and single.narrow == (CONVOLUTION,) and single.what == (MATMUL,)
    busy = int((view.timeline.ops.end - view.timeline.ops.start).sum())
    assert single.time < 0.01 * busy, "without the convolutions that are left in FP32, 15 % of the time"
    wide = r"sm80_xmma_gemm_f32f32_f32f32_f32_(tn|nn)_n_[a-zA-Z0-9_]*"
    narrow = "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x256_16x4_nt_align4>"
    one = analyzed(edited(tmp_path, (wide, narrow)))
    assert found(one) is None and CODE in one.passed, "what is left in FP32 was left so"


@pytest.mark.parametrize("name", ["mlp_train", "loader", "launch", "conv_infer", "gpu_bound", "decoder"])
def test_silent_where_it_would_not_shorten_the_program(name: str) -> None:
    one = analyzed(traces.path(name))
    assert found(one) is None and CODE in one.passed


def test_time_before_late_launches_is_no_gain() -> None:
    single = TimelineView(kineto.read(traces.path("mlp_train"))).single
    assert single is not None and single.time > 0 and single.hidden > 0.3


def test_not_applicable_without_tf32(tmp_path: Path) -> None:
    one = analyzed(edited(tmp_path, (r"NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB")))
    assert found(one) is None
    assert ["TF32" in n.why for n in one.not_applicable if n.code == CODE] == [True]
