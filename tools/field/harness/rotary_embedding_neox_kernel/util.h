// Small helpers of the harness (our own code).
#pragma once
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { \
    printf("FAIL CUDA error %s at line %d\n", cudaGetErrorString(e_), __LINE__); exit(1); } } while (0)
struct Rng {   // xorshift: quick enough for tens of millions of numbers
    uint64_t s = 88172645463325252ull;
    uint32_t next() { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return (uint32_t)(s >> 32); }
    float uni() { return (next() >> 8) * (1.0f / 16777216.0f); }
    float normal() { return (uni() + uni() + uni() + uni() - 2.0f) * 1.7320508f; }
};
template <class T> T *up(const std::vector<T> &v) {
    T *p; CK(cudaMalloc(&p, v.size() * sizeof(T)));
    CK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice)); return p;
}
template <class T> std::vector<T> down(const T *p, size_t n) {
    std::vector<T> v(n); CK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost)); return v;
}
