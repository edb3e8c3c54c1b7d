// Total-variation gradient of the SH coefficients of a sparse 128^3 grid (a ball of voxels in Z order, 27 coefficients).
#include "torch_stub.h"
#include <vector>
#include "cuda_util.cuh"
#include "kernel.inc"
#ifndef LAUNCH
#define LAUNCH(links, data, s0, s1, scale, Q, g) \
    tv_grad_kernel<<<(unsigned)((Q - 1) / TV_GRAD_CUDA_THREADS + 1), TV_GRAD_CUDA_THREADS>>>(links, data, s0, s1, scale, Q, false, -1.f, -1.f, g)
#endif
static uint32_t rs = 12345;
static float rnd() { rs = rs * 1664525u + 1013904223u; return (rs >> 8) * (1.f / 16777216.f); }
int main() {
    const int R = 128, D = 27;
    std::vector<int32_t> links(R * R * R, -1);
    std::vector<int> where;
    int cap = 0;
    for (int m = 0; m < R * R * R; ++m) {                  // Z order
        int x = 0, y = 0, z = 0;
        for (int b = 0; b < 7; ++b) { x |= (m >> (3 * b + 2) & 1) << b; y |= (m >> (3 * b + 1) & 1) << b; z |= (m >> (3 * b) & 1) << b; }
        float dx = x - 63.5f, dy = y - 63.5f, dz = z - 63.5f;
        if (dx * dx + dy * dy + dz * dz < 65.f * 65.f) { links[(x * R + y) * R + z] = cap++; where.push_back((x * R + y) * R + z); }
    }
    std::vector<float> data((size_t)cap * D);
    for (auto& v : data) v = 0.5f * (rnd() - 0.5f);
    int32_t* dl; float *dd, *dg; const size_t nb = data.size() * 4;
    CK(cudaMalloc(&dl, links.size() * 4)); CK(cudaMalloc(&dd, nb)); CK(cudaMalloc(&dg, nb));
    CK(cudaMemcpy(dl, links.data(), links.size() * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dd, data.data(), nb, cudaMemcpyHostToDevice));
    auto L = torch::Tensor(dl, R, R, R).packed_accessor32<int32_t, 3, torch::RestrictPtrTraits>();
    auto A = torch::Tensor(dd, cap, D).packed_accessor64<float, 2, torch::RestrictPtrTraits>();
    const int nl = (R - 1) * (R - 1) * (R - 1);
    const size_t Q = (size_t)nl * D;
    const float scale = 1000.f / nl;
    for (int it = 0; it < 6; ++it) {
        CK(cudaMemset(dg, 0, nb));
        LAUNCH(L, A, 0, D, scale, Q, dg);
        CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
    }
    std::vector<float> g(data.size());
    CK(cudaMemcpy(g.data(), dg, nb, cudaMemcpyDeviceToHost));
    // reference: the element's own cell and the three cells that end in it
    auto val = [&](int x, int y, int z, int c) { int l = links[(x * R + y) * R + z]; return l >= 0 ? data[(size_t)l * D + c] : 0.f; };
    auto term = [&](int x, int y, int z, int c, int which) -> double {
        if (x < 0 || y < 0 || z < 0 || x >= R - 1 || y >= R - 1 || z >= R - 1) return 0;
        double v = val(x, y, z, c), d[3] = {val(x + 1, y, z, c) - v, val(x, y + 1, z, c) - v, val(x, y, z + 1, c) - v};
        double id = scale / sqrt(1e-9 + d[0] * d[0] + d[1] * d[1] + d[2] * d[2]) * (R / 256.0);
        return which == 3 ? -(d[0] + d[1] + d[2]) * id : d[which] * id;
    };
    int bad = 0;
    for (int k = 0; k < 20000; ++k) {
        int l = (int)(((long long)k * 7919 + 13) % cap), c = k % D, p = where[l], x = p / R / R, y = p / R % R, z = p % R;
        double r = term(x, y, z, c, 3) + term(x - 1, y, z, c, 0) + term(x, y - 1, z, c, 1) + term(x, y, z - 1, c, 2);
        if (!(fabs(r - g[(size_t)l * D + c]) < 1e-4 * fabs(r) + 1e-3 * scale)) ++bad;
    }
    double s = 0; for (float v : g) s += fabs(v);
    printf("%s %d\nchecksum %.4g\n", bad ? "FAIL" : "PASS", bad, s);
}
