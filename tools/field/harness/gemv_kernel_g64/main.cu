// Runs gemv_kernel_g64 alone: one token through a 4096 -> 11008 layer, 4-bit weights, groups of 64.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>
#include "kernel.inc"
#ifndef ROWS_PER_BLOCK
#define ROWS_PER_BLOCK 4
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
  const int IC = 4096, OC = 11008, B = 1;
  const int words = IC / 8, zero_words = 8, groups = 64;  // a row of weights, of zeros, of scales
  std::vector<uint32_t> w((size_t)OC * words), z((size_t)OC * zero_words);
  std::vector<__half> s((size_t)OC * groups), x(IC), y(OC);
  for (auto& v : w) v = rnd();
  for (auto& v : z) v = 0x88888888u ^ (rnd() & 0x11111111u);
  for (auto& v : s) v = __float2half(0.002f + 0.004f * unit());
  for (auto& v : x) v = __float2half(unit() + unit() + unit() + unit() - 2.0f);
  uint32_t *dw, *dz;
  __half *ds, *dx, *dy;
  CHECK(cudaMalloc(&dw, w.size() * 4));
  CHECK(cudaMalloc(&dz, z.size() * 4));
  CHECK(cudaMalloc(&ds, s.size() * 2));
  CHECK(cudaMalloc(&dx, x.size() * 2));
  CHECK(cudaMalloc(&dy, y.size() * 2));
  CHECK(cudaMemcpy(dw, w.data(), w.size() * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dz, z.data(), z.size() * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(ds, s.data(), s.size() * 2, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dx, x.data(), x.size() * 2, cudaMemcpyHostToDevice));
  for (int r = 0; r < 6; r++) {
    gemv_kernel_g64<<<dim3(1, OC / ROWS_PER_BLOCK, B), dim3(32, 4)>>>((const float4*)dx, dw, dz, ds, dy, IC, OC);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(y.data(), dy, y.size() * 2, cudaMemcpyDeviceToHost));
  double worst = 0, sum = 0;
  for (int o = 0; o < OC; o++) sum += fabs((double)__half2float(y[o]));
  for (int o = 5; o < OC; o += 101) {
    double ref = 0;
    for (int i = 0; i < IC; i++) {
      int q = (w[(size_t)o * words + i / 8] >> (4 * (i % 8))) & 15, g = i / 64;
      int zero = (z[(size_t)o * zero_words + g / 8] >> (4 * (g % 8))) & 15;
      ref += (double)__half2float(s[(size_t)o * groups + g]) * (q - zero) * (double)__half2float(x[i]);
    }
    worst = fmax(worst, fabs(ref - (double)__half2float(y[o])));
  }
  if (worst < 0.02) printf("PASS\n"); else printf("FAIL worst %g\n", worst);
  printf("checksum %.3g\n", sum);
  return 0;
}
