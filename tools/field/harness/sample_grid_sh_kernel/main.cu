// Trilinear sampling of SH coefficients at the points of a 512^3 grid from a sparse 256^3 grid (one chunk of 720720 points of a resampling).
#include "torch_stub.h"
#include <vector>
#include "cuda_util.cuh"
#include "data_spec_packed.cuh"
namespace { namespace device {
#include "kernel.inc"
} }
#ifndef LAUNCH
#define LAUNCH(grid, pts, n, D, out) device::sample_grid_sh_kernel<<<((n) * (D) - 1) / 1024 + 1, 1024>>>(grid, pts, out)
#endif
static uint32_t rs = 777;
static float rnd() { rs = rs * 1664525u + 1013904223u; return (rs >> 8) * (1.f / 16777216.f); }
int main() {
    const int R = 256, D = 27, N = 720720, R2 = 512;
    std::vector<int32_t> links(R * R * R, -1);
    int cap = 0;
    for (int m = 0; m < R * R * R; ++m) {                  // Z order; a thick, wavy shell holds data
        int x = 0, y = 0, z = 0;
        for (int b = 0; b < 8; ++b) { x |= (m >> (3 * b + 2) & 1) << b; y |= (m >> (3 * b + 1) & 1) << b; z |= (m >> (3 * b) & 1) << b; }
        float dx = (x - 127.5f) / 128, dy = (y - 127.5f) / 128, dz = (z - 127.5f) / 128, r = sqrtf(dx * dx + dy * dy + dz * dz);
        if (fabsf(r - 0.62f - 0.1f * dx * dy) < 0.13f) links[(x * R + y) * R + z] = cap++;
    }
    std::vector<float> data((size_t)cap * D), pts(N * 3);
    for (auto& v : data) v = rnd() - 0.5f;
    for (int i = 0; i < N; ++i) {
        const int q = 256 * R2 * R2 + i, c[3] = {q / R2 / R2, q / R2 % R2, q % R2};
        for (int d = 0; d < 3; ++d) pts[3 * i + d] = (c[d] + 0.5f) * 0.5f - 0.5f;
    }
    int32_t* dl; float *dd, *dp, *dout;
    CK(cudaMalloc(&dl, links.size() * 4)); CK(cudaMalloc(&dd, data.size() * 4)); CK(cudaMalloc(&dp, pts.size() * 4)); CK(cudaMalloc(&dout, (size_t)N * D * 4));
    CK(cudaMemcpy(dl, links.data(), links.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dd, data.data(), data.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dp, pts.data(), pts.size() * 4, cudaMemcpyHostToDevice));
    float off[3] = {0, 0, 0}, sc[3] = {1, 1, 1};
    SparseGridSpec spec{};
    spec.density_data = torch::Tensor(dd, cap, 1); spec.sh_data = torch::Tensor(dd, cap, D); spec.links = torch::Tensor(dl, R, R, R);
    spec._offset = torch::Tensor(off, 3); spec._scaling = torch::Tensor(sc, 3); spec.basis_dim = 9; spec.basis_type = 1;
    device::PackedSparseGridSpec grid(spec);
    auto P = torch::Tensor(dp, N, 3).packed_accessor32<float, 2, torch::RestrictPtrTraits>();
    auto O = torch::Tensor(dout, N, D).packed_accessor32<float, 2, torch::RestrictPtrTraits>();
    for (int it = 0; it < 6; ++it) {
        LAUNCH(grid, P, N, D, O);
        CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
    }
    std::vector<float> o((size_t)N * D);
    CK(cudaMemcpy(o.data(), dout, o.size() * 4, cudaMemcpyDeviceToHost));
    int bad = 0;
    for (int k = 0; k < 50000; ++k) {
        const int i = (int)((long long)k * 7919 % N), c = k % D;
        int l[3]; double f[3], r = 0;
        for (int d = 0; d < 3; ++d) {
            double p = std::min(std::max((double)pts[3 * i + d], 0.0), R - 1.0);
            l[d] = std::min((int)p, R - 2); f[d] = p - l[d];
        }
        for (int u = 0; u < 8; ++u) {
            int a = u >> 2, b = u >> 1 & 1, e = u & 1, k2 = links[((l[0] + a) * R + l[1] + b) * R + l[2] + e];
            if (k2 >= 0) r += (a ? f[0] : 1 - f[0]) * (b ? f[1] : 1 - f[1]) * (e ? f[2] : 1 - f[2]) * data[(size_t)k2 * D + c];
        }
        if (!(fabs(r - o[(size_t)i * D + c]) < 1e-5)) ++bad;
    }
    double s = 0; for (float v : o) s += fabs(v);
    printf("%s %d\nchecksum %.4g\n", bad ? "FAIL" : "PASS", bad, s);
}
