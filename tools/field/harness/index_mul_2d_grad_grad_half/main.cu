// Runs index_mul_2d_grad_grad_half alone: the triplets of 8 systems of 80 atoms with 30 neighbours each, 64 features.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>
namespace at {
using Half = __half;
}
static __device__ __forceinline__ __half gpuAtomicAdd(__half* address, __half value) { return atomicAdd(address, value); }
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

// Small multiples of 1/4, so that sums of products in half do not depend on their order.
static void fill(std::vector<__half>& v, const __half* table) {
  for (auto& e : v) e = table[rnd() >> 29];
}

int main() {
  const int systems = 8, atoms = 80, near = 30, fea = 64;
  const int edges = systems * atoms * near;
  std::vector<int64_t> idx;
  for (int e = 0; e < edges; e++) {  // edge (j -> i): one triplet with each edge (k -> j) but one
    int system = e / (atoms * near), j = system * atoms + rnd() % atoms, left_out = rnd() % near;
    for (int k = 0; k < near; k++)
      if (k != left_out) idx.push_back((int64_t)j * near + k);
  }
  const int64_t size = (int64_t)idx.size();
  __half table[8];
  const float values[8] = {-1.0f, -0.75f, -0.5f, 0.25f, 0.5f, 0.75f, 1.0f, 1.25f};
  for (int i = 0; i < 8; i++) table[i] = __float2half(values[i]);
  const __half ones[8] = {table[0], table[2], table[4], table[6], table[2], table[4], table[6], table[0]};
  std::vector<__half> in1((size_t)edges * fea), gg1(in1.size()), g1(in1.size());
  std::vector<__half> in2(size * fea), gg2(in2.size()), go(in2.size()), ggo(in2.size()), g2(in2.size());
  fill(in1, table), fill(gg1, table), fill(in2, table), fill(gg2, ones), fill(go, ones);
  const size_t b1 = in1.size() * 2, b2 = in2.size() * 2;
  __half *d_in1, *d_gg1, *d_g1, *d_in2, *d_gg2, *d_go, *d_ggo, *d_g2;
  int64_t* d_idx;
  CHECK(cudaMalloc(&d_in1, b1));
  CHECK(cudaMalloc(&d_gg1, b1));
  CHECK(cudaMalloc(&d_g1, b1));
  CHECK(cudaMalloc(&d_in2, b2));
  CHECK(cudaMalloc(&d_gg2, b2));
  CHECK(cudaMalloc(&d_go, b2));
  CHECK(cudaMalloc(&d_ggo, b2));
  CHECK(cudaMalloc(&d_g2, b2));
  CHECK(cudaMalloc(&d_idx, size * 8));
  CHECK(cudaMemcpy(d_in1, in1.data(), b1, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_gg1, gg1.data(), b1, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_in2, in2.data(), b2, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_gg2, gg2.data(), b2, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_go, go.data(), b2, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_idx, idx.data(), size * 8, cudaMemcpyHostToDevice));
  for (int r = 0; r < 6; r++) {
    CHECK(cudaMemset(d_g1, 0, b1));
    index_mul_2d_grad_grad_half<<<(int)((size + 7) / 8), dim3(32, 8)>>>(d_ggo, d_g1, d_g2, d_go, d_gg1, d_gg2, d_in1,
                                                                        d_in2, d_idx, size, fea);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(g1.data(), d_g1, b1, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(g2.data(), d_g2, b2, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(ggo.data(), d_ggo, b2, cudaMemcpyDeviceToHost));
  bool ok = true;
  for (int f = 3; f < fea; f += 20) {
    std::vector<float> ref(edges, 0.0f);
    for (int64_t t = 0; t < size; t++) {
      size_t a = idx[t] * fea + f, c = t * fea + f;
      float v1 = __half2float(gg1[a]), v2 = __half2float(gg2[c]), o = __half2float(go[c]);
      ref[idx[t]] += v2 * o;
      ok = ok && fabs(__half2float(g2[c]) - v1 * o) < 0.01f;
      ok = ok && fabs(__half2float(ggo[c]) - (v1 * __half2float(in2[c]) + v2 * __half2float(in1[a]))) < 0.01f;
    }
    for (int e = 0; e < edges; e++) ok = ok && fabs(__half2float(g1[(size_t)e * fea + f]) - ref[e]) < 0.01f;
  }
  printf(ok ? "PASS\n" : "FAIL values\n");
  double s1 = 0, s2 = 0, s3 = 0;
  for (auto v : g1) s1 += fabs(__half2float(v));
  for (auto v : g2) s2 += fabs(__half2float(v));
  for (auto v : ggo) s3 += fabs(__half2float(v));
  printf("checksum %.4g %.4g %.4g\n", s1, s2, s3);
  return 0;
}
