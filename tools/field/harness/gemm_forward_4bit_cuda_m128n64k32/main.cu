// 4-bit weights x half activations for a prompt of 512 tokens: 512 x 4096 x 4096, groups of 128, K split in 8.
#include "util.h"
#include <cuda_fp16.h>
#include "kernel.inc"

int main() {
    const int M = 512, IC = 4096, OC = 4096, split = 8; constexpr int G = 128;
    const int zw = (IC / G + 7) / 8, sw = zw * 8;
    Rng r;
    std::vector<half> A((size_t)M * IC), S((size_t)OC * sw); std::vector<int> B((size_t)OC * IC / 8), Z((size_t)OC * zw);
    for (auto &v : A) v = __float2half(r.normal());
    for (auto &v : S) v = __float2half(0.003f + 0.003f * r.uni());
    for (auto &v : B) v = (int)r.next();
    for (auto &v : Z) { unsigned t = 0; for (int j = 0; j < 8; j++) t |= (6 + r.next() % 4) << (4 * j); v = (int)t; }
    half *dA = up(A), *dS = up(S), *dC; int *dB = up(B), *dZ = up(Z);
    const size_t NO = (size_t)split * M * OC; CK(cudaMalloc(&dC, NO * sizeof(half)));
    const dim3 grid((M + 127) / 128 * (OC / 64) * split), block(32, 4);
    for (int it = 0; it < 6; it++) {
        gemm_forward_4bit_cuda_m128n64k32<G><<<grid, block>>>(split, dA, dB, dS, dZ, M, IC, OC, dC);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto o = down(dC, NO);
    int bad = 0; double sum = 0;
    for (int s = 0; s < 2000; s++) {
        int m = r.next() % M, n = r.next() % OC; double t = 0, g = 0;
        for (int k = 0; k < IC; k++) {
            int w = (int)((unsigned)B[(size_t)n * (IC / 8) + k / 8] >> (4 * (k % 8)) & 15), gr = k / G;
            int z = (int)((unsigned)Z[(size_t)n * zw + gr / 8] >> (4 * (gr % 8)) & 15);
            t += (double)__half2float(A[(size_t)m * IC + k]) * (w - z) * __half2float(S[(size_t)n * sw + gr]);
        }
        for (int z = 0; z < split; z++) g += __half2float(o[((size_t)z * M + m) * OC + n]);
        if (!(fabs(t - g) < 0.01 + 0.005 * fabs(t))) bad++;
    }
    for (auto &v : o) sum += fabs(__half2float(v));
    if (bad) printf("FAIL %d of 2000 samples\n", bad); else printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
