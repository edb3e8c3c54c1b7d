// One training batch of rays (4096 random pixels of one picture) marched through a 128^3 occupancy bit grid.
#include <cuda_runtime.h>
#include <stdint.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include "helpers.inc"
#include "kernel.inc"
#include "launch.h"

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)

static uint32_t spread(uint32_t v) {  // every bit to every third place
    uint32_t r = 0;
    for (int i = 0; i < 10; i++) r |= ((v >> i) & 1u) << (3 * i);
    return r;
}
static bool solid(float x, float y, float z) {  // a plate, a body, two balls and a mast
    if (fabsf(x) < 0.6f && fabsf(y) < 0.45f && z > -0.35f && z < -0.25f) return true;
    if (fabsf(x - 0.1f) < 0.25f && fabsf(y) < 0.2f && z > -0.25f && z < 0.1f) return true;
    auto ball = [&](float cx, float cy, float cz, float r) { return (x-cx)*(x-cx) + (y-cy)*(y-cy) + (z-cz)*(z-cz) < r*r; };
    if (ball(-0.4f, 0.25f, -0.1f, 0.16f) || ball(-0.4f, -0.25f, -0.1f, 0.16f)) return true;
    return fabsf(x - 0.45f) < 0.04f && fabsf(y) < 0.04f && z > -0.25f && z < 0.6f;
}

template <typename T> static T* dev(const std::vector<T>& v) {
    T* p; CK(cudaMalloc(&p, v.size() * sizeof(T))); CK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice)); return p;
}

int main() {
    const uint32_t N = 4096, H = 128, C = 1, max_steps = 1024, M = N * 256;
    const float bound = 1.0f, dt_gamma = 0.0f;
    std::mt19937 rng(42);
    std::uniform_real_distribution<float> U(0.f, 1.f);
    std::vector<uint8_t> grid(H * H * H / 8, 0);
    for (uint32_t i = 0; i < H; i++) for (uint32_t j = 0; j < H; j++) for (uint32_t k = 0; k < H; k++)
        if (solid((i + .5f) / H * 2 - 1, (j + .5f) / H * 2 - 1, (k + .5f) / H * 2 - 1)) {
            uint32_t m = spread(i) | spread(j) << 1 | spread(k) << 2;
            grid[m / 8] |= 1 << (m % 8);
        }
    // a camera 3.2 away, looking at the origin, 800 x 800 pixels, field of view 0.69
    std::vector<float> o(N * 3), d(N * 3), nears(N), fars(N), noises(N);
    const float cam[3] = {2.2f, -1.7f, 1.6f};
    const float cl = sqrtf(cam[0]*cam[0] + cam[1]*cam[1] + cam[2]*cam[2]);
    const float f[3] = {-cam[0]/cl, -cam[1]/cl, -cam[2]/cl};
    const float rl = sqrtf(f[0]*f[0] + f[1]*f[1]);
    const float r[3] = {f[1]/rl, -f[0]/rl, 0};
    const float u[3] = {r[1]*f[2] - r[2]*f[1], r[2]*f[0] - r[0]*f[2], r[0]*f[1] - r[1]*f[0]};
    const float half = tanf(0.345f);
    for (uint32_t n = 0; n < N; n++) {
        const float px = (int(U(rng) * 800) + .5f) / 400 - 1, py = (int(U(rng) * 800) + .5f) / 400 - 1;
        float v[3], l = 0;
        for (int c = 0; c < 3; c++) { v[c] = f[c] + half * (px * r[c] + py * u[c]); l += v[c] * v[c]; }
        float lo = -1e30f, hi = 1e30f;
        for (int c = 0; c < 3; c++) {
            d[n*3+c] = v[c] / sqrtf(l); o[n*3+c] = cam[c];
            const float a = (-bound - cam[c]) / d[n*3+c], b = (bound - cam[c]) / d[n*3+c];
            lo = std::max(lo, std::min(a, b)); hi = std::min(hi, std::max(a, b));
        }
        if (lo > hi) lo = hi = 3.4e38f;
        nears[n] = std::max(lo, 0.2f); fars[n] = hi; noises[n] = U(rng);
    }
    float *d_o = dev(o), *d_d = dev(d), *d_n = dev(nears), *d_f = dev(fars), *d_noise = dev(noises), *d_x, *d_dir, *d_del;
    uint8_t* d_g = dev(grid);
    int *d_rays, *d_cnt;
    CK(cudaMalloc(&d_x, M * 12)); CK(cudaMalloc(&d_dir, M * 12)); CK(cudaMalloc(&d_del, M * 8));
    CK(cudaMalloc(&d_rays, N * 12)); CK(cudaMalloc(&d_cnt, 8));
    for (int i = 0; i < 6; i++) {
        CK(cudaMemset(d_cnt, 0, 8));
        CK(cudaMemset(d_x, 0, M * 12)); CK(cudaMemset(d_dir, 0, M * 12)); CK(cudaMemset(d_del, 0, M * 8));
        launch(d_o, d_d, d_g, bound, dt_gamma, max_steps, N, C, H, M, d_n, d_f, d_x, d_dir, d_del, d_rays, d_cnt, d_noise);
        CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
    }
    std::vector<float> x(M * 3), dir(M * 3), del(M * 2);
    std::vector<int> rays(N * 3), cnt(2), seen(N, 0);
    CK(cudaMemcpy(x.data(), d_x, M * 12, cudaMemcpyDeviceToHost)); CK(cudaMemcpy(dir.data(), d_dir, M * 12, cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(del.data(), d_del, M * 8, cudaMemcpyDeviceToHost)); CK(cudaMemcpy(rays.data(), d_rays, N * 12, cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(cnt.data(), d_cnt, 8, cudaMemcpyDeviceToHost));
    // reference: count the occupied places of the fixed sequence of t
    int bad = 0; long total = 0;
    for (uint32_t q = 0; q < N; q++) {
        const int n = rays[q*3], start = rays[q*3+1], steps = rays[q*3+2];
        if (n < 0 || n >= (int)N || seen[n]++) { bad++; continue; }
        total += steps;
        if (n % 16) continue;
        const float dt = 2 * 1.7320508f / max_steps;
        int want = 0;
        float first = -1;
        for (float t = nears[n] + dt * noises[n]; t < fars[n] && want < (int)max_steps; t += dt) {
            uint32_t g[3];
            for (int c = 0; c < 3; c++) g[c] = std::min(127.f, std::max(0.f, .5f * (std::min(1.f, std::max(-1.f, o[n*3+c] + t * d[n*3+c])) + 1) * H));
            const uint32_t m = spread(g[0]) | spread(g[1]) << 1 | spread(g[2]) << 2;
            if (grid[m / 8] >> (m % 8) & 1) { if (first < 0) first = o[n*3] + t * d[n*3]; want++; }
        }
        if (abs(want - steps) > 2) bad++;
        if (want && steps && want == steps && fabsf(x[start * 3L] - first) > 0.01f) bad++;
    }
    if (total != cnt[0] || cnt[1] != (int)N) bad++;
    if (bad) printf("FAIL %d bad\n", bad); else printf("PASS\n");
    double sx = 0, sd = 0, sl = 0;
    for (long i = 0; i < cnt[0] * 3L && i < M * 3L; i++) { sx += fabs(x[i]); sd += fabs(dir[i]); }
    for (long i = 0; i < cnt[0] * 2L && i < M * 2L; i++) sl += fabs(del[i]);
    printf("points %.4g checksum %.4g %.4g %.4g\n", (double)cnt[0], sx, sd, sl);
    return bad != 0;
}
