// Small helpers of the harness.
#pragma once
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <cmath>
#include <vector>

#define CK(e) do { cudaError_t e_ = (e); if (e_ != cudaSuccess) { \
    printf("FAIL %s (line %d)\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)

struct Rng {
    uint32_t s = 12345u;
    uint32_t next() { s ^= s << 13; s ^= s >> 17; s ^= s << 5; return s; }
    float uni() { return (next() >> 8) * (1.0f / 16777216.0f); }
    // near normal: sum of four uniforms
    float norm() { return (uni() + uni() + uni() + uni() - 2.0f) * 1.732f; }
};

template <typename T> T* to_gpu(const std::vector<T>& h) {
    T* d; CK(cudaMalloc(&d, h.size() * sizeof(T)));
    CK(cudaMemcpy(d, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice));
    return d;
}
template <typename T> T* gpu_new(size_t n) {
    T* d; CK(cudaMalloc(&d, n * sizeof(T))); CK(cudaMemset(d, 0, n * sizeof(T))); return d;
}
template <typename T> std::vector<T> to_cpu(const T* d, size_t n) {
    std::vector<T> h(n);
    CK(cudaMemcpy(h.data(), d, n * sizeof(T), cudaMemcpyDeviceToHost));
    return h;
}
inline bool near(double got, double want, double tol) {
    return std::fabs(got - want) <= tol * (1.0 + std::fabs(want));
}
