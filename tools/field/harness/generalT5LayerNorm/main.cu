// RMS norm in half: 2048 tokens of a 4096-wide language model.
#include "util.h"
#include <cuda_fp16.h>
#include "reduction.cuh"
#include "kernel.inc"

int main() {
    const int m = 2048, n = 4096, block = 1024 / (4 / sizeof(half)); const float eps = 1e-6f;
    Rng r; std::vector<half> x((size_t)m * n), g(n);
    for (int i = 0; i < m; i++) { float s = 0.2f + r.uni(); for (int j = 0; j < n; j++) x[(size_t)i * n + j] = __float2half(s * r.normal()); }
    for (auto &v : g) v = __float2half(0.5f + 0.5f * r.uni());
    half *dx = up(x), *dg = up(g), *dy; CK(cudaMalloc(&dy, x.size() * sizeof(half)));
    for (int it = 0; it < 6; it++) {
        generalT5LayerNorm<half><<<m, block>>>(dx, dg, dy, eps, m, n);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto o = down(dy, x.size());
    int bad = 0;
    for (int i = 0; i < m; i += 37) {
        double q = 0; for (int j = 0; j < n; j++) { double t = __half2float(x[(size_t)i * n + j]); q += t * t; }
        double s = 1 / sqrt(q / n + eps);
        for (int j = 0; j < n; j++) {
            double t = __half2float(x[(size_t)i * n + j]) * s * __half2float(g[j]);
            if (!(fabs(t - __half2float(o[(size_t)i * n + j])) <= 2e-3 * (fabs(t) + 0.01))) bad++;
        }
    }
    double sum = 0; for (auto &v : o) sum += fabs(__half2float(v));
    if (bad) printf("FAIL %d\n", bad); else printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
