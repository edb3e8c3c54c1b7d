// Frequency encoding (3 coordinates, 10 frequencies) of 4096 rays x 128 points, as for the deformation field of a dynamic scene.
#include <cuda_runtime.h>
#include <stdint.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include "helpers.inc"
#include "kernel.inc"
#include "launch.h"

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)

int main() {
    const uint32_t rays = 4096, pts = 128, B = rays * pts, D = 3, deg = 10, C = D + D * deg * 2;
    std::mt19937 rng(7);
    std::uniform_real_distribution<float> U(-1.f, 1.f);
    std::vector<float> in(B * D), out((size_t)B * C);
    for (uint32_t r = 0; r < rays; r++) {  // points on a chord of the unit cube
        float a[3], b[3];
        for (int c = 0; c < 3; c++) { a[c] = U(rng); b[c] = U(rng); }
        for (uint32_t p = 0; p < pts; p++) for (int c = 0; c < 3; c++) in[(r * pts + p) * 3 + c] = a[c] + (b[c] - a[c]) * (p + .5f) / pts;
    }
    float *d_in, *d_out;
    CK(cudaMalloc(&d_in, in.size() * 4)); CK(cudaMalloc(&d_out, out.size() * 4));
    CK(cudaMemcpy(d_in, in.data(), in.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemset(d_out, 0, out.size() * 4));
    for (int i = 0; i < 6; i++) { launch(d_in, B, D, deg, C, d_out); CK(cudaGetLastError()); CK(cudaDeviceSynchronize()); }
    CK(cudaMemcpy(out.data(), d_out, out.size() * 4, cudaMemcpyDeviceToHost));
    int bad = 0;
    double sum = 0;
    for (size_t b = 0; b < B; b++) {
        if (b % 97 == 0)
            for (uint32_t d = 0; d < D; d++) {
                const double v = in[b * D + d];
                if (out[b * C + d] != (float)v) bad++;
                for (uint32_t f = 0; f < deg; f++) {
                    if (fabs(out[b * C + D + (2 * f) * D + d] - sin(ldexp(v, f))) > 2e-3) bad++;
                    if (fabs(out[b * C + D + (2 * f + 1) * D + d] - cos(ldexp(v, f))) > 2e-3) bad++;
                }
            }
        for (uint32_t c = 0; c < C; c++) sum += fabs(out[b * C + c]);
    }
    if (bad) printf("FAIL %d bad\n", bad); else printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
