// Backward of dropout (ratio 0.5) after the last fire module of SqueezeNet v1.1, batch 256: 512 channels of 13 x 13.
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
    const int n = 256 * 512 * 13 * 13;
    const unsigned threshold = 2147483647u;  // UINT_MAX * 0.5
    const float scale = 2.f;
    std::vector<float> in(n), out(n);
    std::vector<unsigned> raw(n);
    unsigned s = 99;
    auto rnd = [&]() { s ^= s << 13; s ^= s >> 17; s ^= s << 5; return s; };
    for (int i = 0; i < n; i++) { in[i] = (rnd() >> 8) * (1.f / 8388608.f) - 1.f; raw[i] = rnd(); }
    const std::vector<unsigned> mask = device_mask(raw, threshold);
    float *d_in, *d_out; unsigned* d_m;
    CK(cudaMalloc(&d_in, n * 4L)); CK(cudaMalloc(&d_out, n * 4L)); CK(cudaMalloc(&d_m, mask.size() * 4));
    CK(cudaMemcpy(d_in, in.data(), n * 4L, cudaMemcpyHostToDevice)); CK(cudaMemcpy(d_m, mask.data(), mask.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemset(d_out, 0, n * 4L));
    for (int i = 0; i < 6; i++) { launch(n, d_in, d_m, threshold, scale, d_out); CK(cudaGetLastError()); CK(cudaDeviceSynchronize()); }
    CK(cudaMemcpy(out.data(), d_out, n * 4L, cudaMemcpyDeviceToHost));
    int bad = 0;
    double sum = 0;
    for (int i = 0; i < n; i++) { if (out[i] != (raw[i] > threshold ? in[i] * scale : 0.f)) bad++; sum += fabs(out[i]); }
    if (bad) printf("FAIL %d bad\n", bad); else printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
