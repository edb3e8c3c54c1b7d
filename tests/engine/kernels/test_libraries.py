"""Kernels of libraries, by names that were seen in public profiles."""

from __future__ import annotations

import time

import pytest

from kscope.arch import table
from kscope.engine.findings.library_code import for_the_caller
from kscope.engine.kernels.libraries import LONGEST, library_of, note
from kscope.model.contract.analysis import Finding

SEEN = {
    "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT": (
        "cuBLAS", {"m": "128", "n": "256", "k": "64", "stages": "4", "cluster": "1x2", "layout": "TN"}),
    "nvjet_sm100_tst_64x16_64x16_2x4_2cta_h_bz_splitK_TNT": (
        "cuBLAS", {"sm": "100", "m": "64", "n": "16", "stages": "16", "cluster": "2x4", "split": "_splitK"}),
    "nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN": ("cuBLAS", {"sm": "120", "m": "64"}),
    "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas":
        ("cuBLAS", {"sm": "90", "m": "128", "n": "128", "k": "64", "layout": "tn"}),
    "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_relu_f2f_stages_64x6_tn": (
        "cuBLAS", {"m": "64", "n": "64", "k": "64", "stages": "6", "layout": "tn"}),
    "ampere_sgemm_128x64_nn": ("cuBLAS", {"m": "128", "n": "64", "layout": "nn"}),
    "cutlass_80_tensorop_f16_s16816gemm_relu_f16_128x128_32x4_tn_align8": (
        "CUTLASS", {"sm": "80", "m": "128", "k": "32", "stages": "4", "align": "8"}),
    "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_nn_align1>(T1::Params)": (
        "CUTLASS", {"m": "256", "n": "128", "align": "1"}),
    "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float>(cublasSplitKParams<T>)": ("cuBLAS", {}),
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>>(int)": ("PyTorch", {}),
    "triton_red_fused_native_layer_norm_3": ("Triton", {"kind": "red"}),
    "void flashinfer::sampling::RadixTopKMaskLogitsKernel_MultiCTA<(unsigned int)1024>(float)": ("FlashInfer", {}),
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0>(float)": ("FlashInfer", {}),
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)64>>(pytorch_flash::Flash_fwd_params)": (
        "FlashAttention", {}),
    "void cub::CUB_200700_900_NS::DeviceReduceKernel<float>(float)": ("CUB", {}),
    "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1_kernel": (
        "cuDNN", {"sm": "80"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SEEN)
def test_seen(name: str) -> None:
    library, says = SEEN[name]
    found = library_of(name)
    assert found is not None and found.library == library and found.change
    assert says.items() <= found.says.items()
    assert note(found).startswith(f"a kernel of {library}") and "can change" in note(found)


def test_products_in_fp32_are_told_how_to_get_tensor_cores() -> None:
    found = library_of("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize256x64x8_stage3_warpsize2x2x1_ffma_kernel")
    assert found is not None and "float32_matmul_precision" in found.tensor
    idle, other = (
        Finding(code=code, rule="r", title="t", regime="compute-bound", fix="f") for code in ("CMP201", "CMP208")
    )
    told = for_the_caller([idle, other], found)
    assert told[0].fix.startswith("as its caller: TF32") and told[0].fix.endswith("Inside cuBLAS: f")
    assert told[1].fix.startswith("as its caller: sizes and leading")


def test_every_scheme_was_seen() -> None:
    schemes = {(e["library"], e["scheme"]) for e in table("libraries")["scheme"]}
    met = {(f.library, f.scheme) for name in SEEN if (f := library_of(name)) is not None}
    assert schemes - met == {
        ("CUTLASS", "3.x kernels"), ("cuDNN", "generated"), ("NCCL", "collectives"),
    } - met  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["gemm(float *)", "void gemm_kernel<(int)128>(x)", "transpose_tile", "my_ampere_sgemm", "flash::mine(int)", "",
     "void mine::spread<thrust::THRUST_300001_SM_900_NS::transform_iterator<A, const float4 *>, float3 *>(T1, T2)",
     "void softmax<c10::Half, cub::Sum>(T1 *)", "void mine::copy<at::native::Loader<(int)4>>(int)"],
)  # fmt: skip
def test_ones_own_kernels(name: str) -> None:
    assert library_of(name) is None


@pytest.mark.parametrize(
    "name", ["ampere_" + "gemm_1x1" * 9999, "nvjet_a_1x1_" * 9999, "cutlass_80_tensorop" + "_1x1" * 9999, "(" * 99999]
)
def test_hard_names_take_no_time(name: str) -> None:
    assert LONGEST < 1000
    start = time.perf_counter()
    library_of(name)
    assert time.perf_counter() - start < 2.0
