// Runs gelu_and_quant_kernel alone: activation with per-token int8 quantisation, 13 picture tiles x 1025 tokens, width 4096.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>
#include "utils.cuh"
#include "reduction_utils.cuh"
#include "kernel.inc"

#define CHECK(x)                                                              \
  do {                                                                        \
    cudaError_t e_ = (x);                                                     \
    if (e_ != cudaSuccess) {                                                  \
      printf("FAIL cuda: %s (line %d)\n", cudaGetErrorString(e_), __LINE__); \
      return 1;                                                               \
    }                                                                         \
  } while (0)

static uint32_t rng_state = 12345u;
static inline uint32_t rnd() {
  rng_state ^= rng_state << 13;
  rng_state ^= rng_state >> 17;
  rng_state ^= rng_state << 5;
  return rng_state;
}
static inline float unit() { return (rnd() >> 8) * (1.0f / 16777216.0f); }

int main() {
  const int tokens = 13 * 1025, d = 4096;
  const size_t n = (size_t)tokens * d;
  std::vector<__half> x(n), scale(tokens);
  std::vector<int8_t> q(n);
  std::vector<__half> table(4096);
  for (auto& v : table) v = __float2half(1.5f * (unit() + unit() + unit() + unit() - 2.0f));
  for (auto& v : x) v = table[rnd() >> 20];
  __half *dx, *dt, *ds;
  int8_t* dq;
  CHECK(cudaMalloc(&dx, n * 2));
  CHECK(cudaMalloc(&dt, n * 2));
  CHECK(cudaMalloc(&ds, tokens * 2));
  CHECK(cudaMalloc(&dq, n));
  CHECK(cudaMemcpy(dx, x.data(), n * 2, cudaMemcpyHostToDevice));
  for (int r = 0; r < 6; r++) {
    vllm::gelu_and_quant_kernel<__half, true><<<dim3(tokens), dim3(std::min(d, 128))>>>(dq, dx, d, ds, dt);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(q.data(), dq, n, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(scale.data(), ds, tokens * 2, cudaMemcpyDeviceToHost));
  bool ok = true;
  for (int t = 7; t < tokens; t += 457) {
    double top = 0;
    std::vector<double> y(d);
    for (int i = 0; i < d; i++) {
      double v = __half2float(x[(size_t)t * d + i]);
      y[i] = 0.5 * v * (1 + tanh(0.79788456 * v * (1 + 0.044715 * v * v)));
      top = std::max(top, fabs(y[i]));
    }
    ok = ok && fabs(__half2float(scale[t]) - top / 127) < 0.01 * top / 127;
    for (int i = 0; i < d; i++) ok = ok && fabs(y[i] * 127 / top - q[(size_t)t * d + i]) < 1.3;
  }
  printf(ok ? "PASS\n" : "FAIL values\n");
  double sum = 0, sums = 0;
  for (auto v : q) sum += abs((int)v);
  for (auto v : scale) sums += __half2float(v);
  printf("checksum %.4g %.4g\n", sum, sums);
  return 0;
}
