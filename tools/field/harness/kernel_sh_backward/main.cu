// Runs the backward pass of the spherical harmonics encoding alone: 262144 view directions, degree 4, float.
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>
#include "kernel.inc"
#ifndef BLOCKS
#define BLOCKS(n) (((n) + 255) / 256)
#endif

#define CHECK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

static uint32_t seed = 12345u;
static float rnd() { seed ^= seed << 13; seed ^= seed >> 17; seed ^= seed << 5; return (seed >> 8) * (2.f / 16777216.f) - 1.f; }

int main() {
  const uint32_t B = 262144, D = 3, C = 4, C2 = C * C;
  std::vector<float> g((size_t)B * C2), dy((size_t)B * D * C2), in((size_t)B * D), out((size_t)B * D);
  for (auto& v : g) v = rnd() * 1e-2f;
  for (auto& v : dy) v = rnd();
  for (auto& v : in) v = rnd();
  float *dg, *ddy, *din, *dout;
  CHECK(cudaMalloc(&dg, g.size() * 4)); CHECK(cudaMalloc(&ddy, dy.size() * 4));
  CHECK(cudaMalloc(&din, in.size() * 4)); CHECK(cudaMalloc(&dout, out.size() * 4));
  CHECK(cudaMemcpy(dg, g.data(), g.size() * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(ddy, dy.data(), dy.size() * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(din, in.data(), in.size() * 4, cudaMemcpyHostToDevice));
  for (int r = 0; r < 6; r++) {
    CHECK(cudaMemset(dout, 0, out.size() * 4));
    kernel_sh_backward<float><<<BLOCKS(B * D), 256>>>(dg, din, B, D, C, ddy, dout);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaMemcpy(out.data(), dout, out.size() * 4, cudaMemcpyDeviceToHost));
  double sum = 0; int bad = 0;
  for (size_t t = 0; t < out.size(); t++) {
    sum += fabs((double)out[t]);
    double ref = 0;
    for (uint32_t c = 0; c < C2; c++) ref += (double)g[t / D * C2 + c] * dy[t * C2 + c];
    if (!(fabs(ref - out[t]) < 1e-6)) bad++;
  }
  if (bad) printf("FAIL %d differ\n", bad); else printf("PASS\n");
  printf("checksum %.4g\n", sum);
  return bad != 0;
}
