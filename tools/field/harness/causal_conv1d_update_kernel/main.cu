// Decoding step of a Mamba-2.8B layer: batch 128, 5120 channels, one token, bf16 activations and states, float weights, width 4,
// SiLU; x is the first half of the rows of a projection to 2 x 5120.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <random>
#include <vector>
#include "bf16_type.h"
#include "causal_conv1d.h"
#include "causal_conv1d_common.h"
#include "kernel.inc"
#include "launch.h"

int main()
{
    using In = at::BFloat16;
    const int    B = 128, D = 5120, K = 4;
    std::mt19937 rng(3);
    std::normal_distribution<float> nd(0.f, 1.f);
    std::vector<In>    x(size_t(B) * 2 * D), out(size_t(B) * D), st(size_t(B) * D * K), got(st.size()), noise(1 << 16);
    std::vector<float> w(D * K), bias(D);
    for (auto& v : noise)
        v = nd(rng);
    for (size_t i = 0; i < x.size(); i++)
        x[i] = noise[(i * 40503u + (i >> 16) * 7919u) & 65535];
    for (size_t i = 0; i < st.size(); i++)
        st[i] = noise[(i * 48271u + (i >> 16) * 6271u + 77u) & 65535];
    for (auto& v : w)
        v = 0.4f * nd(rng);
    for (auto& v : bias)
        v = 0.1f * nd(rng);
    In *   d_x, *d_out, *d_st, *d_src;
    float *d_w, *d_b;
    CHECK(cudaMalloc(&d_x, x.size() * 2));
    CHECK(cudaMalloc(&d_out, out.size() * 2));
    CHECK(cudaMalloc(&d_st, st.size() * 2));
    CHECK(cudaMalloc(&d_src, st.size() * 2));
    CHECK(cudaMalloc(&d_w, D * K * 4));
    CHECK(cudaMalloc(&d_b, D * 4));
    CHECK(cudaMemcpy(d_x, x.data(), x.size() * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_src, st.data(), st.size() * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_w, w.data(), D * K * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, bias.data(), D * 4, cudaMemcpyHostToDevice));

    ConvParamsBase p{};
    p.batch = B, p.dim = D, p.seqlen = 1, p.width = K, p.silu_activation = true;
    p.x_batch_stride = 2 * D, p.x_c_stride = 1, p.x_l_stride = 1;
    p.out_batch_stride = D, p.out_c_stride = 1, p.out_l_stride = 1;
    p.weight_c_stride = K, p.weight_width_stride = 1;
    p.conv_state_len = K, p.conv_state_batch_stride = D * K, p.conv_state_c_stride = K, p.conv_state_l_stride = 1;
    p.x_ptr = d_x, p.out_ptr = d_out, p.weight_ptr = d_w, p.bias_ptr = d_b, p.conv_state_ptr = d_st;
    for (int r = 0; r < 8; r++) {  // 2 to warm up, 6 measured
        CHECK(cudaMemcpy(d_st, d_src, st.size() * 2, cudaMemcpyDeviceToDevice));
        launch(p);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaMemcpy(out.data(), d_out, out.size() * 2, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(got.data(), d_st, got.size() * 2, cudaMemcpyDeviceToHost));
    int bad = 0;
    for (size_t i = 0; i < out.size(); i++) {
        const int b = int(i / D), c = int(i % D);
        float     v[4], a = bias[c];
        for (int k = 0; k < K; k++) {
            v[k] = k < 3 ? float(st[i * K + k + 1]) : float(x[size_t(b) * 2 * D + c]);
            a += w[c * K + k] * v[k];
            bad += float(got[i * K + k]) != v[k];
        }
        a = a / (1.f + expf(-a));
        bad += !(fabsf(a - float(out[i])) < 0.01f + 0.01f * fabsf(a));
    }
    double s0 = 0, s1 = 0;
    for (auto v : out)
        s0 += fabs((double)float(v));
    for (auto v : got)
        s1 += fabs((double)float(v));
    if (bad)
        printf("FAIL %d wrong\n", bad);
    else
        printf("PASS\n");
    printf("checksum %.4g %.4g\n", s0, s1);
    return bad != 0;
}
