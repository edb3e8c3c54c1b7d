// Runs cleanup_v3 alone: the last sums of a norm over the 398 tensors of BERT-large, chunks of 65536, with norms per tensor.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>
#include "reduce.inc"
#include "kernel.inc"
#ifndef EXTRA_BLOCKS
#define EXTRA_BLOCKS 0
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
  const long chunk = 65536, wide = 1024;
  std::vector<long> sizes = {30528 * wide, 512 * wide, 2 * wide, wide, wide};
  for (int layer = 0; layer < 24; layer++) {
    for (int i = 0; i < 4; i++) sizes.push_back(wide * wide), sizes.push_back(wide);
    sizes.insert(sizes.end(), {wide, wide, 4 * wide * wide, 4 * wide, 4 * wide * wide, wide, wide, wide});
  }
  sizes.insert(sizes.end(), {wide * wide, wide, wide * wide, wide, wide, wide, 30528, 2 * wide, 2});
  const int tensors = (int)sizes.size();
  long most = 0;
  for (long s : sizes) most = std::max(most, (s + chunk - 1) / chunk);
  std::vector<float> out(320), per((size_t)tensors * most, 0.0f), ret(1), rets(tensors);
  for (int t = 0; t < tensors; t++)
    for (long c = 0; c * chunk < sizes[t]; c++)
      per[t * most + c] = (0.5f + unit()) * 1e-6f * std::min(chunk, sizes[t] - c * chunk);
  for (auto& v : out) v = 10.0f * unit();
  float *dout, *dper, *dret, *drets;
  CHECK(cudaMalloc(&dout, 320 * 4));
  CHECK(cudaMalloc(&dper, per.size() * 4));
  CHECK(cudaMalloc(&dret, 4));
  CHECK(cudaMalloc(&drets, tensors * 4));
  CHECK(cudaMemcpy(dout, out.data(), 320 * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dper, per.data(), per.size() * 4, cudaMemcpyHostToDevice));
  for (int r = 0; r < 6; r++) {
    cleanup_v3<<<tensors + EXTRA_BLOCKS, 512>>>(dout, dper, dret, drets, true, (int)most);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(ret.data(), dret, 4, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(rets.data(), drets, tensors * 4, cudaMemcpyDeviceToHost));
  double total = 0, sum = 0;
  for (float v : out) total += v;
  bool ok = fabs(sqrt(total) - ret[0]) < 1e-4 * sqrt(total);
  for (int t = 0; t < tensors; t++) {
    double ref = 0;
    for (long c = 0; c < most; c++) ref += per[t * most + c];
    ok = ok && fabs(sqrt(ref) - rets[t]) <= 1e-4 * sqrt(ref);
    sum += rets[t];
  }
  printf(ok ? "PASS\n" : "FAIL values\n");
  printf("checksum %d tensors %.4g %.4g\n", tensors, sum, (double)ret[0]);
  return 0;
}
