// Multiresolution hash encoding of one training batch: 262144 samples along rays, 16 levels of 2 half features, up to 2^19 entries a level.
#include <cuda_runtime.h>
#include <stdint.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include "half_stub.h"
#include "helpers.inc"
#include "index.inc"
#include "kernel.inc"
#include "launch.h"

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)

int main() {
    const uint32_t B = 262144, L = 16, H = 16;
    const double scale_per_level = exp2(log2(2048.0 / H) / (L - 1));
    const float S = log2(scale_per_level);
    std::vector<int> off(1, 0);
    for (uint32_t l = 0; l < L; l++) {
        const double res = ceil(H * pow(scale_per_level, l));
        const double n = std::min(double(1 << 19), (res + 1) * (res + 1) * (res + 1));
        off.push_back(off.back() + (int)(ceil(n / 8) * 8));
    }
    std::mt19937 rng(3);
    std::uniform_real_distribution<float> U(0.f, 1.f);
    std::vector<__half> emb((size_t)off[L] * 2);
    for (auto& e : emb) e = __float2half(U(rng) * 0.2f - 0.1f);
    std::vector<float> in(B * 3);
    for (uint32_t i = 0; i < B; i += 64) {  // 64 samples of a ray inside the object, one after the other
        float p[3], d[3], l = 0;
        for (int c = 0; c < 3; c++) { p[c] = 0.2f + 0.6f * U(rng); d[c] = U(rng) - 0.5f; l += d[c] * d[c]; }
        for (uint32_t k = 0; k < 64; k++) for (int c = 0; c < 3; c++)
            in[(i + k) * 3 + c] = std::min(1.f, std::max(0.f, p[c] + d[c] / sqrtf(l + 1e-6f) * 0.0017f * k));
    }
    float* d_in; __half *d_emb, *d_out; int* d_off;
    const size_t no = (size_t)L * B * 2;
    CK(cudaMalloc(&d_in, in.size() * 4)); CK(cudaMalloc(&d_emb, emb.size() * 2)); CK(cudaMalloc(&d_out, no * 2)); CK(cudaMalloc(&d_off, off.size() * 4));
    CK(cudaMemcpy(d_in, in.data(), in.size() * 4, cudaMemcpyHostToDevice)); CK(cudaMemcpy(d_emb, emb.data(), emb.size() * 2, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(d_off, off.data(), off.size() * 4, cudaMemcpyHostToDevice)); CK(cudaMemset(d_out, 0, no * 2));
    for (int i = 0; i < 6; i++) {
        launch(d_in, (const at::Half*)d_emb, d_off, (at::Half*)d_out, B, L, S, H);
        CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
    }
    std::vector<__half> out(no);
    CK(cudaMemcpy(out.data(), d_out, no * 2, cudaMemcpyDeviceToHost));
    int bad = 0;
    for (uint32_t l = 0; l < L; l++) {
        const float scale = exp2f(l * S) * H - 1.0f;
        const uint32_t n = off[l + 1] - off[l];
        const uint64_t side = (uint64_t)ceilf(scale) + 2;
        for (uint32_t b = 5; b < B; b += 1021) {
            float acc[2] = {0, 0};
            for (int k = 0; k < 8; k++) {
                float w = 1; uint32_t g[3];
                for (int c = 0; c < 3; c++) {
                    const float p = in[b * 3 + c] * scale + .5f, fl = floorf(p);
                    g[c] = (uint32_t)fl + (k >> c & 1); w *= (k >> c & 1) ? p - fl : 1 - (p - fl);
                }
                const uint32_t at = side * side * side <= n ? g[0] + side * (g[1] + side * g[2])
                                                            : (g[0] ^ g[1] * 2654435761u ^ g[2] * 805459861u) % n;
                for (int c = 0; c < 2; c++) acc[c] += w * __half2float(emb[((size_t)off[l] + at) * 2 + c]);
            }
            for (int c = 0; c < 2; c++) if (fabsf(acc[c] - __half2float(out[((size_t)l * B + b) * 2 + c])) > 1.5e-3f) bad++;
        }
    }
    double sum = 0;
    for (auto v : out) sum += fabs(__half2float(v));
    if (bad) printf("FAIL %d bad\n", bad); else printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
