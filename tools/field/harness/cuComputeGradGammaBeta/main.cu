// Runs cuComputeGradGammaBeta alone: 16 partial rows of width 4096, float sums to half gradients.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>
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
  const int part = 16, n1 = 8192, n2 = 4096;
  std::vector<float> pg((size_t)part * n2), pb(pg.size());
  std::vector<__half> g(n2), b(n2);
  for (auto& v : pg) v = 4.0f * unit() - 1.5f;
  for (auto& v : pb) v = 2.0f * unit() - 1.2f;
  float *dpg, *dpb;
  __half *dg, *db;
  CHECK(cudaMalloc(&dpg, pg.size() * 4));
  CHECK(cudaMalloc(&dpb, pb.size() * 4));
  CHECK(cudaMalloc(&dg, n2 * 2));
  CHECK(cudaMalloc(&db, n2 * 2));
  CHECK(cudaMemcpy(dpg, pg.data(), pg.size() * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dpb, pb.data(), pb.size() * 4, cudaMemcpyHostToDevice));
  const dim3 threads(32, 8, 1), blocks((n2 + 31) / 32, 1, 1);
  for (int r = 0; r < 6; r++) {
    cuComputeGradGammaBeta<<<blocks, threads, threads.x * threads.y * sizeof(float)>>>(dpg, dpb, part, n1, n2, dg, db,
                                                                                       false);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(g.data(), dg, n2 * 2, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(b.data(), db, n2 * 2, cudaMemcpyDeviceToHost));
  bool ok = true;
  double sum = 0;
  for (int i = 0; i < n2; i++) {
    double rg = 0, rb = 0;
    for (int p = 0; p < part; p++) rg += pg[(size_t)p * n2 + i], rb += pb[(size_t)p * n2 + i];
    ok = ok && fabs(rg - __half2float(g[i])) < 0.02 && fabs(rb - __half2float(b[i])) < 0.02;
    sum += fabs((double)__half2float(g[i])) + fabs((double)__half2float(b[i]));
  }
  printf(ok ? "PASS\n" : "FAIL values\n");
  printf("checksum %.4g\n", sum);
  return 0;
}
