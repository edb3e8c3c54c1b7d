// Runs duplicateWithKeys of diff-gaussian-rasterization alone: 1M Gaussians on a 1600x1060 picture, of which about 60 % are visible, with log-normal radii.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#include "auxiliary.h"
#include "kernel.inc"

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)

template <class T> static T* upload(const std::vector<T>& v) {
    T* d;
    CK(cudaMalloc(&d, v.size() * sizeof(T)));
    CK(cudaMemcpy(d, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return d;
}

int main() {
    const int P = 1000000, W = 1600, H = 1060;
    const dim3 tiles((W + BLOCK_X - 1) / BLOCK_X, (H + BLOCK_Y - 1) / BLOCK_Y, 1);
    std::mt19937 rng(7);
    std::uniform_real_distribution<float> uni(0.f, 1.f);
    std::normal_distribution<float> gauss(0.f, 1.f);

    std::vector<float2> xy(P);
    std::vector<float> depth(P);
    std::vector<int> radius(P);
    std::vector<uint32_t> offsets(P);
    std::vector<uint64_t> keys;
    std::vector<uint32_t> values;
    auto tile_of = [](float v, int block, int count) { return std::min(count, std::max(0, (int)(v / block))); };
    for (int i = 0; i < P; i++) {
        xy[i] = make_float2(W * (uni(rng) * 1.1f - 0.05f), H * (uni(rng) * 1.1f - 0.05f));
        depth[i] = 0.3f + 12.f * uni(rng) * uni(rng);
        int r = uni(rng) < 0.62f ? (int)std::ceil(7.f * std::exp(0.9f * gauss(rng))) : 0;
        r = std::min(r, 1500);
        if (r > 0) {
            int x0 = tile_of(xy[i].x - r, BLOCK_X, tiles.x), x1 = tile_of(xy[i].x + r + BLOCK_X - 1, BLOCK_X, tiles.x);
            int y0 = tile_of(xy[i].y - r, BLOCK_Y, tiles.y), y1 = tile_of(xy[i].y + r + BLOCK_Y - 1, BLOCK_Y, tiles.y);
            if ((x1 - x0) * (y1 - y0) == 0) r = 0;
            uint32_t bits;
            memcpy(&bits, &depth[i], 4);
            for (int y = y0; r > 0 && y < y1; y++)
                for (int x = x0; x < x1; x++) {
                    keys.push_back(((uint64_t)(y * tiles.x + x) << 32) | bits);
                    values.push_back(i);
                }
        }
        radius[i] = r;
        offsets[i] = (uint32_t)keys.size();
    }
    const size_t pairs = keys.size();

    float2* d_xy = upload(xy);
    float* d_depth = upload(depth);
    int* d_radius = upload(radius);
    uint32_t* d_offsets = upload(offsets);
    uint64_t* d_keys;
    uint32_t* d_values;
    CK(cudaMalloc(&d_keys, pairs * 8));
    CK(cudaMalloc(&d_values, pairs * 4));
    CK(cudaMemset(d_keys, 0xff, pairs * 8));
    CK(cudaMemset(d_values, 0xff, pairs * 4));
    for (int it = 0; it < 6; it++) {
        duplicateWithKeys<<<(P + 255) / 256, 256>>>(P, d_xy, d_depth, d_offsets, d_keys, d_values, d_radius, tiles);
        CK(cudaGetLastError());
        CK(cudaDeviceSynchronize());
    }

    std::vector<uint64_t> got_keys(pairs);
    std::vector<uint32_t> got_values(pairs);
    CK(cudaMemcpy(got_keys.data(), d_keys, pairs * 8, cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(got_values.data(), d_values, pairs * 4, cudaMemcpyDeviceToHost));
    size_t bad = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < pairs; i++) {
        bad += got_keys[i] != keys[i] || got_values[i] != values[i];
        sum += got_keys[i] * 31 + got_values[i] * (i + 1);
    }
    printf("pairs %zu checksum %016llx\n", pairs, (unsigned long long)sum);
    if (bad) printf("FAIL %zu of %zu pairs differ\n", bad, pairs);
    else printf("PASS\n");
    return bad ? 1 : 0;
}
