// As the library's host code launches it on an H100 for M = 16, N = 14336: tile 32 x 64 x 128.
#pragma once
static void launch(const __nv_bfloat16* A, const uint8_t* B, const float* absmax, __nv_bfloat16* C, int M, int N, int K) {
    using T = __nv_bfloat16;
    constexpr int MT = 32, NT = 64, KC = 128;
    constexpr int smem = smem_bytes_for<T, MT, NT, KC>();
    static bool set = false;
    if (!set) CK(cudaFuncSetAttribute(gemm_4bit_sm80_m16n8k16<T, MT, NT, KC>, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    set = true;
    dim3 grid((M + MT - 1) / MT, (N + NT - 1) / NT);
    gemm_4bit_sm80_m16n8k16<T, MT, NT, KC><<<grid, CTA_SIZE, smem>>>(A, B, absmax, nullptr, nullptr, nullptr, C, nullptr, M, N, K, 64, 2);
}
