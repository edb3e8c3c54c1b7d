// Mixture-of-experts routing: 2048 tokens, top 2 of 64 experts: 4096 pairs (expert, source row) sorted by expert, 7 key bits.
#include <cuda_runtime.h>
#include <cub/device/device_radix_sort.cuh>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#define CHECK(x)                                                                      \
    do {                                                                              \
        cudaError_t e_ = (x);                                                         \
        if (e_ != cudaSuccess) {                                                      \
            printf("FAIL %s line %d: %s\n", #x, __LINE__, cudaGetErrorString(e_));    \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

static void sort_pairs(
    void* workspace, size_t bytes, const int* keys, int* keys_out, const int* values, int* values_out, int count, int bits)
{
    CHECK(cub::DeviceRadixSort::SortPairs(workspace, bytes, keys, keys_out, values, values_out, count, 0, bits));
}

int main()
{
    const int tokens = 2048, k = 2, experts = 64, count = tokens * k;
    const int bits = (int)log2((double)experts) + 1;
    std::mt19937 gen(3);
    std::vector<double> weight(experts);
    std::gamma_distribution<double> popular(2.0, 1.0);
    for (double& w : weight)
        w = popular(gen);
    std::discrete_distribution<int> pick(weight.begin(), weight.end());
    std::vector<int> keys(count), values(count), keys_got(count), values_got(count);
    for (int t = 0; t < tokens; t++) {
        const int first = pick(gen);
        int second = pick(gen);
        while (second == first)
            second = pick(gen);
        keys[t * k]       = first;
        keys[t * k + 1]   = second;
        values[t * k]     = t;
        values[t * k + 1] = tokens + t;
    }

    int *d_keys, *d_keys_out, *d_values, *d_values_out;
    void* workspace;
    size_t bytes = 0;
    CHECK(cub::DeviceRadixSort::SortPairs(
        nullptr, bytes, (const int*)nullptr, (int*)nullptr, (const int*)nullptr, (int*)nullptr, count, 0, bits));
    CHECK(cudaMalloc(&workspace, bytes + 256));
    CHECK(cudaMalloc(&d_keys, count * sizeof(int)));
    CHECK(cudaMalloc(&d_keys_out, count * sizeof(int)));
    CHECK(cudaMalloc(&d_values, count * sizeof(int)));
    CHECK(cudaMalloc(&d_values_out, count * sizeof(int)));
    CHECK(cudaMemcpy(d_keys, keys.data(), count * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_values, values.data(), count * sizeof(int), cudaMemcpyHostToDevice));

    for (int r = 0; r < 8; r++)
        sort_pairs(workspace, bytes, d_keys, d_keys_out, d_values, d_values_out, count, bits);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    CHECK(cudaMemcpy(keys_got.data(), d_keys_out, count * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(values_got.data(), d_values_out, count * sizeof(int), cudaMemcpyDeviceToHost));
    std::vector<int> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return keys[x] < keys[y]; });
    int bad = 0;
    double sum = 0;
    for (int i = 0; i < count; i++) {
        bad += keys_got[i] != keys[order[i]] || values_got[i] != values[order[i]];
        sum += (double)(i + 1) * (keys_got[i] + 0.001 * values_got[i]);
    }
    if (bad)
        printf("FAIL %d\n", bad);
    else
        printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
