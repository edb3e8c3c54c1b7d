// 4-bit weights x half activations while decoding a batch of 16: M 16, N and K 4096, groups of 128.
#include "util.h"
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_pipeline_primitives.h>
#include "semaphore.h"
#include "dequantize.cuh"
#include "kernel.inc"

int main() {
    const int M = 16, N = 4096, K = 4096;
    constexpr int G = 128, CTA_M = 16, CTA_N = 128, CTA_K = 128, WARP_M = 16, WARP_N = 32, WARP_K = 64;
    constexpr int SPLITK = 2, STAGES = 4;
    constexpr int WARPS = (CTA_M / WARP_M) * (CTA_N / WARP_N) * (CTA_K / WARP_K);
    constexpr int SCALES = (G >= CTA_K) ? CTA_N / (G / CTA_K) * STAGES * 2 : CTA_N * (CTA_K / G) * STAGES * 2;
    constexpr int SMEM = (CTA_M * CTA_K + CTA_N * CTA_K / 4 + SCALES) * STAGES * (int)sizeof(half);
    Rng r;
    // four neighbouring output channels share one 4-bit value per 64 inputs: the packed order inside does not matter to the check
    std::vector<half> A((size_t)M * K), S((size_t)(K / G) * N), Z(S.size());
    std::vector<uint16_t> B((size_t)(N / 4) * K); std::vector<int> q((size_t)(N / 4) * (K / 64));
    for (auto &v : A) v = __float2half(r.normal());
    for (size_t i = 0; i < S.size(); i++) { float s = 0.003f + 0.003f * r.uni(); S[i] = __float2half(s); Z[i] = __float2half(-s * (6 + r.next() % 4)); }
    for (auto &v : q) v = r.next() % 16;
    for (size_t i = 0; i < B.size(); i++) B[i] = (uint16_t)(q[i / 64] * 0x1111);
    half *dA = up(A), *dS = up(S), *dZ = up(Z), *dC; uint16_t *dB = up(B); int *sem;
    CK(cudaMalloc(&dC, (size_t)M * N * sizeof(half)));
    const int tiles = (M + CTA_M - 1) / CTA_M * (N / CTA_N);
    CK(cudaMalloc(&sem, tiles * sizeof(int)));
    auto f = gemm_w4a16_T1<CTA_M, CTA_N, CTA_K, WARP_M, WARP_N, WARP_K, STAGES, G, SPLITK, half>;
    CK(cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM));
    for (int it = 0; it < 6; it++) {
        CK(cudaMemset(sem, 0, tiles * sizeof(int)));
        f<<<tiles * SPLITK, dim3(32, WARPS), SMEM>>>(dA, (half *)dB, dS, dZ, dC, sem, M, N, K);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto o = down(dC, (size_t)M * N);
    int bad = 0; double sum = 0;
    for (int s = 0; s < 2000; s++) {
        int m = r.next() % M, n = r.next() % N; double t = 0;
        for (int k = 0; k < K; k++)
            t += (double)__half2float(A[(size_t)m * K + k]) * (q[(size_t)(n / 4) * (K / 64) + k / 64] * __half2float(S[(size_t)(k / G) * N + n]) + __half2float(Z[(size_t)(k / G) * N + n]));
        if (!(fabs(t - __half2float(o[(size_t)m * N + n])) < 0.06 + 0.01 * fabs(t))) bad++;
    }
    for (auto &v : o) sum += fabs(__half2float(v));
    if (bad) printf("FAIL %d of 2000 samples\n", bad); else printf("PASS\n");
    printf("checksum %.3g\n", sum);
    return bad != 0;
}
