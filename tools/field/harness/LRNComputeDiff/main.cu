// Backward of the local response normalisation norm2 of CaffeNet, batch 256: 256 channels of 13 x 13, window 5, alpha 1e-4, beta 0.75.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include "caffe_stub.h"
#include "kernel.inc"
#include "launch.h"

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)

static float* dev(const std::vector<float>& v) {
    float* p; CK(cudaMalloc(&p, v.size() * 4)); CK(cudaMemcpy(p, v.data(), v.size() * 4, cudaMemcpyHostToDevice)); return p;
}

int main() {
    const int num = 256, C = 256, HW = 13 * 13, size = 5;
    const float alpha = 1e-4f, beta = 0.75f;
    const size_t n = (size_t)num * C * HW;
    std::vector<float> bot(n), top(n), sc(n), td(n), out(n);
    unsigned s = 12345;
    auto rnd = [&]() { s = s * 1664525u + 1013904223u; return (s >> 8) * (1.f / 16777216.f); };
    for (size_t i = 0; i < n; i++) {  // after a ReLU: half of it zero
        const float v = rnd() * 2 - 1;
        bot[i] = v > 0 ? v * 60 : 0;
        td[i] = (rnd() - .5f) * .02f;
    }
    for (int b = 0; b < num; b++) for (int c = 0; c < C; c++) for (int p = 0; p < HW; p++) {
        float a = 0;
        for (int k = c - 2; k <= c + 2; k++) if (k >= 0 && k < C) { const float v = bot[((size_t)b * C + k) * HW + p]; a += v * v; }
        const size_t i = ((size_t)b * C + c) * HW + p;
        sc[i] = 1 + a * alpha / size;
        const float r = sqrtf(sc[i]);
        top[i] = bot[i] / (r * sqrtf(r));
    }
    float *d_b = dev(bot), *d_t = dev(top), *d_s = dev(sc), *d_td = dev(td), *d_o;
    CK(cudaMalloc(&d_o, n * 4)); CK(cudaMemset(d_o, 0, n * 4));
    const float ratio = float(2. * alpha * beta / size);
    for (int i = 0; i < 6; i++) {
        launch(d_b, d_t, d_s, d_td, num, C, 13, 13, size, -beta, ratio, d_o);
        CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
    }
    CK(cudaMemcpy(out.data(), d_o, n * 4, cudaMemcpyDeviceToHost));
    int bad = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += fabs(out[i]);
        if (i % 1013) continue;
        const int p = i % HW, c = i / HW % C, b = i / HW / C;
        double a = 0;
        for (int k = c - 2; k <= c + 2; k++)
            if (k >= 0 && k < C) { const size_t j = ((size_t)b * C + k) * HW + p; a += (double)td[j] * top[j] / sc[j]; }
        const double want = td[i] * pow(sc[i], -0.75) - (double)ratio * bot[i] * a;
        if (fabs(want - out[i]) > 1e-6 + 1e-3 * fabs(want)) bad++;
    }
    if (bad) printf("FAIL %d bad\n", bad); else printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
