// Backward convolution of a Mamba2-1.3B layer: batch 4, 2048 tokens, 4096 + 2 x 128 channels innermost, bf16 activations,
// float weights, width 4, SiLU.
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
#include "config.h"

int main()
{
    using In = at::BFloat16;
    const int    B = 4, D = 4352, L = 2048, K = 4;
    const int    chunks = (L + kChunkL - 1) / kChunkL;
    const size_t n = size_t(B) * D * L, ws = kDeterministic ? size_t(B) * chunks * D : 1;
    std::mt19937 rng(3);
    std::normal_distribution<float> nd(0.f, 1.f);
    std::vector<In>    x(n), dy(n), dx(n), noise(1 << 16);
    std::vector<float> w(D * K), bias(D), dw(D * K), db(D), dww(ws * K), dbw(ws);
    for (auto& v : noise)
        v = nd(rng);
    for (size_t i = 0; i < n; i++) {
        x[i]  = noise[(i * 40503u + (i >> 16) * 7919u) & 65535];
        dy[i] = noise[(i * 48271u + (i >> 16) * 6271u + 77u) & 65535];
    }
    for (auto& v : w)
        v = 0.4f * nd(rng);
    for (auto& v : bias)
        v = 0.1f * nd(rng);
    In *   d_x, *d_dy, *d_dx;
    float *d_w, *d_b, *d_dw, *d_db, *d_dww, *d_dbw;
    CHECK(cudaMalloc(&d_x, n * 2));
    CHECK(cudaMalloc(&d_dy, n * 2));
    CHECK(cudaMalloc(&d_dx, n * 2));
    CHECK(cudaMalloc(&d_w, D * K * 4));
    CHECK(cudaMalloc(&d_b, D * 4));
    CHECK(cudaMalloc(&d_dw, D * K * 4));
    CHECK(cudaMalloc(&d_db, D * 4));
    CHECK(cudaMalloc(&d_dww, ws * K * 4));
    CHECK(cudaMalloc(&d_dbw, ws * 4));
    CHECK(cudaMemcpy(d_x, x.data(), n * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_dy, dy.data(), n * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_w, w.data(), D * K * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, bias.data(), D * 4, cudaMemcpyHostToDevice));

    ConvParamsBwd p{};
    p.batch = B, p.dim = D, p.seqlen = L, p.width = K, p.silu_activation = true;
    p.x_batch_stride = p.dx_batch_stride = p.dout_batch_stride = D * L;
    p.x_l_stride = p.dx_l_stride = p.dout_l_stride = D;
    p.x_c_stride = p.dx_c_stride = p.dout_c_stride = 1;
    p.weight_c_stride = p.dweight_c_stride = K, p.weight_width_stride = p.dweight_width_stride = 1;
    p.x_ptr = d_x, p.dout_ptr = d_dy, p.dx_ptr = d_dx, p.weight_ptr = d_w, p.bias_ptr = d_b, p.dweight_ptr = d_dw, p.dbias_ptr = d_db;
    p.deterministic = kDeterministic, p.dweight_workspace_ptr = d_dww, p.dbias_workspace_ptr = d_dbw;
    p.dweight_workspace_batch_stride = chunks * D * K, p.dweight_workspace_dim_stride = K, p.dbias_workspace_batch_stride = chunks * D;
    using Traits = Causal_conv1d_channellast_bwd_kernel_traits<128, 4, kChunkL, true, true, In, float>;
    for (int r = 0; r < 8; r++) {  // 2 to warm up, 6 measured
        CHECK(cudaMemset(d_dw, 0, D * K * 4));
        CHECK(cudaMemset(d_db, 0, D * 4));
        causal_conv1d_channellast_bwd_kernel<Traits, false, false, kDeterministic>
            <<<dim3(B, chunks, (D + 63) / 64), Traits::kNThreads>>>(p);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaMemcpy(dx.data(), d_dx, n * 2, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(dw.data(), d_dw, D * K * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(db.data(), d_db, D * 4, cudaMemcpyDeviceToHost));
    if (kDeterministic) {
        CHECK(cudaMemcpy(dww.data(), d_dww, ws * K * 4, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(dbw.data(), d_dbw, ws * 4, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < ws * K; i++)
            dw[i % (D * K)] += dww[i];
        for (size_t i = 0; i < ws; i++)
            db[i % D] += dbw[i];
    }
    int bad = 0;
    for (int c = 0; c < D; c += 97) {
        double rw[4] = {}, rb = 0;
        for (int b = 0; b < B; b++) {
            std::vector<float> g(L + K, 0.f);  // gradient before the SiLU
            auto at = [&](std::vector<In>& v, int t) { return t < 0 ? 0.f : float(v[(size_t(b) * L + t) * D + c]); };
            for (int t = 0; t < L; t++) {
                float a = bias[c];
                for (int k = 0; k < K; k++)
                    a += w[c * K + k] * at(x, t + k - 3);
                const float s = 1.f / (1.f + expf(-a));
                g[t]          = at(dy, t) * s * (1.f + a * (1.f - s));
                rb += g[t];
                for (int k = 0; k < K; k++)
                    rw[k] += g[t] * at(x, t + k - 3);
            }
            for (int t = 0; t < L; t++) {
                float r = 0.f;
                for (int k = 0; k < K; k++)
                    r += w[c * K + 3 - k] * g[t + k];
                bad += !(fabsf(r - at(dx, t)) < 0.01f + 0.01f * fabsf(r));
            }
        }
        for (int k = 0; k < K; k++)
            bad += !(fabs(rw[k] - dw[c * K + k]) < 0.1 + 0.001 * fabs(rw[k]));
        bad += !(fabs(rb - db[c]) < 0.1 + 0.001 * fabs(rb));
    }
    double s0 = 0, s1 = 0, s2 = 0;
    for (size_t i = 0; i < n; i++)
        s0 += fabs((double)float(dx[i]));
    for (float v : dw)
        s1 += fabs((double)v);
    for (float v : db)
        s2 += fabs((double)v);
    if (bad)
        printf("FAIL %d wrong\n", bad);
    else
        printf("PASS\n");
    printf("checksum %.4g %.4g %.4g\n", s0, s1, s2);
    return bad != 0;
}
