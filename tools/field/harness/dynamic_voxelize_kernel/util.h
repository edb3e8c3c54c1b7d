// Small helpers of the harness.
#pragma once
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                      \
  do {                                                                   \
    cudaError_t err_ = (call);                                           \
    if (err_ != cudaSuccess) {                                           \
      std::printf("FAIL CUDA error %s at line %d\n",                     \
                  cudaGetErrorString(err_), __LINE__);                   \
      std::exit(1);                                                      \
    }                                                                    \
  } while (0)

struct Rng {  // xorshift64*
  uint64_t s;
  explicit Rng(uint64_t seed) : s(seed * 0x9E3779B97F4A7C15ull + 1) {}
  uint32_t next() {
    s ^= s >> 12;
    s ^= s << 25;
    s ^= s >> 27;
    return (uint32_t)((s * 2685821657736338717ull) >> 32);
  }
  float uniform() { return (next() >> 8) * (1.0f / 16777216.0f); }
  float uniform(float a, float b) { return a + (b - a) * uniform(); }
  int below(int n) { return (int)(((uint64_t)next() * (uint64_t)n) >> 32); }
  float normalish() {  // sum of 4 uniforms, variance 1
    return (uniform() + uniform() + uniform() + uniform() - 2.0f) * 1.7320508f;
  }
};
