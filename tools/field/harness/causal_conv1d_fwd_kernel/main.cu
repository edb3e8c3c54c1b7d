// Convolution of a Mamba-1.4B layer: batch 4, 4096 channels, 2048 tokens, bf16 activations, float weights, width 4, SiLU.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <random>
#include <vector>
#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
#include "bf16_type.h"
#include "causal_conv1d.h"
#include "causal_conv1d_common.h"
#include "kernel.inc"

int main()
{
    using In = at::BFloat16;
    const int    B = 4, D = 4096, L = 2048, K = 4;
    const size_t n = size_t(B) * D * L;
    std::mt19937 rng(3);
    std::normal_distribution<float> nd(0.f, 1.f);
    std::vector<In>    x(n), out(n), noise(1 << 16);
    std::vector<float> w(D * K), bias(D);
    for (auto& v : noise)
        v = nd(rng);
    for (size_t i = 0; i < n; i++)
        x[i] = noise[(i * 40503u + (i >> 16) * 7919u) & 65535];
    for (auto& v : w)
        v = 0.4f * nd(rng);
    for (auto& v : bias)
        v = 0.1f * nd(rng);
    In *   d_x, *d_out;
    float *d_w, *d_b;
    CHECK(cudaMalloc(&d_x, n * 2));
    CHECK(cudaMalloc(&d_out, n * 2));
    CHECK(cudaMalloc(&d_w, D * K * 4));
    CHECK(cudaMalloc(&d_b, D * 4));
    CHECK(cudaMemcpy(d_x, x.data(), n * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_w, w.data(), D * K * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, bias.data(), D * 4, cudaMemcpyHostToDevice));

    ConvParamsBase p{};
    p.batch = B, p.dim = D, p.seqlen = L, p.width = K, p.silu_activation = true;
    p.x_batch_stride = D * L, p.x_c_stride = L, p.x_l_stride = 1;
    p.out_batch_stride = D * L, p.out_c_stride = L, p.out_l_stride = 1;
    p.weight_c_stride = K, p.weight_width_stride = 1;
    p.x_ptr = d_x, p.out_ptr = d_out, p.weight_ptr = d_w, p.bias_ptr = d_b;
    using Traits = Causal_conv1d_fwd_kernel_traits<128, 4, true, In, float>;
    for (int r = 0; r < 8; r++) {  // 2 to warm up, 6 measured
        CHECK(cudaMemset(d_out, 0, n * 2));
        causal_conv1d_fwd_kernel<Traits><<<dim3(B, D), Traits::kNThreads, Traits::kSmemSize>>>(p);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaMemcpy(out.data(), d_out, n * 2, cudaMemcpyDeviceToHost));
    int bad = 0;
    for (size_t row = 0; row < size_t(B) * D; row += 61) {
        const int c = int(row % D);
        for (int t = 0; t < L; t++) {
            float a = bias[c];
            for (int k = 0; k < K; k++)
                a += t + k - 3 >= 0 ? w[c * K + k] * float(x[row * L + t + k - 3]) : 0.f;
            a = a / (1.f + expf(-a));
            bad += !(fabsf(a - float(out[row * L + t])) < 0.01f + 0.01f * fabsf(a));
        }
    }
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += fabs((double)float(out[i]));
    if (bad)
        printf("FAIL %d wrong\n", bad);
    else
        printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
