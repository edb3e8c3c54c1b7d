"""What a kernel does, from its own base name: names of NVIDIA's, AMD's and Triton's compilers."""

from __future__ import annotations

import pytest

from kscope.features.timeline.operations.kernel_kinds import base_name, kind_of

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
FLASH = "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<float>>>(flash::Params)"
KERNEL2 = "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(T1::Params)"
GEMVX = "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, int, float>(T13)"
CK = "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm<ck::Bias, ck::CopyActivation>, true>(Argument)"


@pytest.mark.parametrize(
    ("name", "kind", "said_by"),
    [
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x8x512u2_s6_et64x8_dynBatch_sm100f", "compute", "name"),
        (ELEMENTWISE, "memory", "name"),
        ("multimem_all_reduce_kernel<bf16>", "communication", "name"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "communication", "name"),
        ("my_kernel", "unknown", ""),
        ("void my_kernel<cutlass::gemm::Thing, Softmax>(int)", "unknown", ""),  # what it is given is not what it is
        ("Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1.kd", "compute", "name"),
        (CK, "compute", "name"),
        ("attn_fwd.kd", "compute", "name"),
        ("volta_scudnn_128x64_relu_interior_nn_v1", "compute", "name"),
        ("triton_poi_fused_addmm_gelu_0", "memory", "name"),  # what it fuses: the product itself is another kernel
        ("triton_tem_fused_mm_3", "compute", "name"),
        ("triton_red_fused_native_layer_norm_1", "memory", "name"),
        (FLASH, "compute", "template"),
        (KERNEL2, "compute", "template"),
        (GEMVX, "memory", "namespace"),
        ("void splitKreduce_kernel<32, 16, int, __nv_bfloat16>(cublasSplitKParams<float>)", "memory", "name"),
    ],
)
def test_kind(name: str, kind: str, said_by: str) -> None:
    assert (kind_of(name).kind, kind_of(name).said_by) == (kind, said_by)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        (ELEMENTWISE, "vectorized_elementwise_kernel"),
        ("void (anonymous namespace)::softmax_warp_forward<float, 10>(float*)", "softmax_warp_forward"),
        ("void a::b<c<int>, (d)3>::gemm<float, e::f<g>>(h<i>*)", "gemm"),
        ("int* n::k(float)", "k"),
        ("plain [clone .constprop.0]", "plain"),
        ("<<<", "<<<"),
        ("", ""),
    ],
)
def test_base_name(name: str, base: str) -> None:
    assert base_name(name) == base
