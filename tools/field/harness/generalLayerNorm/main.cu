// Runs generalLayerNorm alone: layer norm with per-token int8 quantisation, 13 picture tiles x 1025 tokens, width 1024.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>
#include "utils.cuh"
#include "reduction_utils.cuh"
#include "kernel.inc"
#ifndef TOKENS_PER_BLOCK
#define TOKENS_PER_BLOCK 1
#endif

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
  const int tokens = 13 * 1025, hidden = 1024;
  const float eps = 1e-6f;
  const size_t n = (size_t)tokens * hidden;
  std::vector<__half> x(n), g(hidden), b(hidden), scale(tokens);
  std::vector<int8_t> q(n);
  std::vector<__half> table(4096);
  for (auto& v : table) v = __float2half(2.0f * (unit() + unit() + unit() + unit() - 2.0f) + 0.1f);
  for (auto& v : x) v = table[rnd() >> 20];
  for (auto& v : g) v = __float2half(0.5f + unit());
  for (auto& v : b) v = __float2half(0.4f * unit() - 0.2f);
  __half *dx, *dg, *db, *ds;
  int8_t* dq;
  CHECK(cudaMalloc(&dx, n * 2));
  CHECK(cudaMalloc(&dg, hidden * 2));
  CHECK(cudaMalloc(&db, hidden * 2));
  CHECK(cudaMalloc(&ds, tokens * 2));
  CHECK(cudaMalloc(&dq, n));
  CHECK(cudaMemcpy(dx, x.data(), n * 2, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dg, g.data(), hidden * 2, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), hidden * 2, cudaMemcpyHostToDevice));
  dim3 grid((tokens + TOKENS_PER_BLOCK - 1) / TOKENS_PER_BLOCK), block(std::min(hidden, 128));
  for (int r = 0; r < 6; r++) {
    vllm::generalLayerNorm<__half, at::Half><<<grid, block>>>(dx, dg, db, nullptr, eps, tokens, hidden, nullptr, ds,
                                                              dq, false);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(q.data(), dq, n, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(scale.data(), ds, tokens * 2, cudaMemcpyDeviceToHost));
  bool ok = true;
  for (int t = 3; t < tokens; t += 211) {
    double mean = 0, sq = 0, top = 1e-6;
    std::vector<double> y(hidden);
    for (int i = 0; i < hidden; i++) y[i] = __half2float(x[(size_t)t * hidden + i]), mean += y[i], sq += y[i] * y[i];
    mean /= hidden;
    double inv = 1 / sqrt(sq / hidden - mean * mean + eps);
    for (int i = 0; i < hidden; i++) {
      y[i] = (y[i] - mean) * inv * __half2float(g[i]) + __half2float(b[i]);
      top = std::max(top, fabs(y[i]));
    }
    ok = ok && fabs(__half2float(scale[t]) - top / 127) < 0.002 * top / 127;
    for (int i = 0; i < hidden; i++) ok = ok && fabs(y[i] * 127 / top - q[(size_t)t * hidden + i]) < 0.75;
  }
  printf(ok ? "PASS\n" : "FAIL values\n");
  double sum = 0, sums = 0;
  for (auto v : q) sum += abs((int)v);
  for (auto v : scale) sums += __half2float(v);
  printf("checksum %.4g %.4g\n", sum, sums);
  return 0;
}
