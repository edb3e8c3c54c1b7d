// First stage of Swin-T on 224x224 pictures: batch 32, 56x56 tokens of 96 channels in half, windows of 7, shifted by 3.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include "src/fastertransformer/kernels/reduce_kernel_utils.cuh"
namespace fastertransformer {
#include "kernel.inc"
}
#include "launch.h"

#define CHECK(x)                                                                              \
    do {                                                                                      \
        cudaError_t e_ = (x);                                                                 \
        if (e_ != cudaSuccess) {                                                              \
            printf("FAIL %s line %d: %s\n", #x, __LINE__, cudaGetErrorString(e_));            \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

int main()
{
    const int         B = 32, H = 56, W = 56, C = 96, win = 7, shift = 3;
    const float       eps  = 1e-5f;
    const size_t      rows = size_t(B) * H * W, n = rows * C;
    std::mt19937      rng(11);
    std::normal_distribution<float> nd(0.f, 1.f);
    std::vector<float> noise(1 << 16);
    for (auto& v : noise)
        v = nd(rng);
    std::vector<half> in(n), out(n), g(C), b(C);
    for (size_t i = 0; i < n; i++)
        in[i] = __float2half(noise[(i * 40503u + (i >> 16) * 7919u) & 65535] + 0.3f);
    for (int c = 0; c < C; c++) {
        g[c] = __float2half(1.f + 0.2f * nd(rng));
        b[c] = __float2half(0.1f * nd(rng));
    }
    half *d_in, *d_out, *d_g, *d_b;
    CHECK(cudaMalloc(&d_in, n * 2));
    CHECK(cudaMalloc(&d_out, n * 2));
    CHECK(cudaMalloc(&d_g, C * 2));
    CHECK(cudaMalloc(&d_b, C * 2));
    CHECK(cudaMemcpy(d_in, in.data(), n * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_g, g.data(), C * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, b.data(), C * 2, cudaMemcpyHostToDevice));
    for (int r = 0; r < 8; r++) {  // 2 to warm up, 6 measured
        CHECK(cudaMemset(d_out, 0, n * 2));
        launch((half2*)d_out, (const half2*)d_in, (const half2*)d_g, (const half2*)d_b, eps, B, H, W, C, shift, win);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaMemcpy(out.data(), d_out, n * 2, cudaMemcpyDeviceToHost));

    int bad = 0;
    for (size_t row = 0; row < rows; row += 37) {
        const int im = int(row / (H * W)), y = int(row / W) % H, x = int(row) % W;
        const int sy = (y - shift + H) % H, sx = (x - shift + W) % W;
        const size_t orow = size_t(im) * H * W + ((sy / win) * (W / win) + sx / win) * win * win + (sy % win) * win + sx % win;
        double mean = 0, var = 0;
        for (int c = 0; c < C; c++)
            mean += __half2float(in[row * C + c]);
        mean /= C;
        for (int c = 0; c < C; c++)
            var += pow(__half2float(in[row * C + c]) - mean, 2);
        const double inv = 1.0 / sqrt(var / C + eps);
        for (int c = 0; c < C; c++) {
            const double want = (__half2float(in[row * C + c]) - mean) * inv * __half2float(g[c]) + __half2float(b[c]);
            bad += !(fabs(want - __half2float(out[orow * C + c])) < 0.01 + 0.005 * fabs(want));
        }
    }
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += fabs((double)__half2float(out[i]));
    if (bad)
        printf("FAIL %d wrong\n", bad);
    else
        printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
