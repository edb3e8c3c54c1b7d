// AdaGrad step of the weights of CaffeNet's fc6: 4096 x 9216 parameters.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "caffe_stub.h"
#include "kernel.inc"
#include "launch.h"

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)

int main() {
    const int n = 4096 * 9216;
    const float delta = 1e-8f, rate = 0.01f;
    const size_t bytes = n * 4L;
    std::vector<float> g(n), h(n), og(n), oh(n);
    unsigned s = 4711;
    auto rnd = [&]() { s = s * 1664525u + 1013904223u; return (s >> 8) * (1.f / 16777216.f); };
    for (int i = 0; i < n; i++) { g[i] = (rnd() - .5f) * 1e-2f; h[i] = rnd() * 1e-3f; }
    float *d_g, *d_h, *s_g, *s_h;
    CK(cudaMalloc(&d_g, bytes)); CK(cudaMalloc(&d_h, bytes)); CK(cudaMalloc(&s_g, bytes)); CK(cudaMalloc(&s_h, bytes));
    CK(cudaMemcpy(s_g, g.data(), bytes, cudaMemcpyHostToDevice)); CK(cudaMemcpy(s_h, h.data(), bytes, cudaMemcpyHostToDevice));
    for (int i = 0; i < 6; i++) {
        CK(cudaMemcpy(d_g, s_g, bytes, cudaMemcpyDeviceToDevice)); CK(cudaMemcpy(d_h, s_h, bytes, cudaMemcpyDeviceToDevice));
        launch(n, d_g, d_h, delta, rate);
        CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
    }
    CK(cudaMemcpy(og.data(), d_g, bytes, cudaMemcpyDeviceToHost)); CK(cudaMemcpy(oh.data(), d_h, bytes, cudaMemcpyDeviceToHost));
    int bad = 0;
    double sg = 0, sh = 0;
    for (int i = 0; i < n; i++) {
        sg += fabs(og[i]); sh += oh[i];
        if (i % 37) continue;
        const float hi = h[i] + g[i] * g[i], gi = rate * g[i] / (sqrtf(hi) + delta);
        if (fabsf(oh[i] - hi) > 1e-5f * hi || fabsf(og[i] - gi) > 1e-5f * fabsf(gi) + 1e-12f) bad++;
    }
    if (bad) printf("FAIL %d bad\n", bad); else printf("PASS\n");
    printf("checksum %.4g %.4g\n", sg, sh);
    return bad != 0;
}
