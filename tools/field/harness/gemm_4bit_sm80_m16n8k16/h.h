// Small helpers of the harness (ours).
#pragma once
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CK(x)                                                                              \
    do {                                                                                   \
        cudaError_t e_ = (x);                                                              \
        if (e_ != cudaSuccess) {                                                           \
            printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__);                 \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

struct Rng {
    uint64_t s;
    explicit Rng(uint64_t seed) : s(seed) {}
    uint32_t next() {
        s = s * 6364136223846793005ull + 1442695040888963407ull;
        uint64_t x = s ^ (s >> 29);
        x *= 0xbf58476d1ce4e5b9ull;
        return (uint32_t)(x >> 32);
    }
    float uni() { return (next() >> 8) * (1.0f / 16777216.0f); }
    float gauss() {  // sum of four uniforms, near enough normal, variance 1
        return (uni() + uni() + uni() + uni() - 2.0f) * 1.7320508f;
    }
};

template <typename T> T* to_device(const std::vector<T>& v) {
    T* p;
    CK(cudaMalloc(&p, v.size() * sizeof(T)));
    CK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}
template <typename T> T* clone_device(const T* src, size_t n) {
    T* p;
    CK(cudaMalloc(&p, n * sizeof(T)));
    CK(cudaMemcpy(p, src, n * sizeof(T), cudaMemcpyDeviceToDevice));
    return p;
}
template <typename T> std::vector<T> to_host(const T* p, size_t n) {
    std::vector<T> v(n);
    CK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}
