// RMSprop step of the 300000 rows (of 3000000, 27 coefficients each) that a training batch touched.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include <torch/extension.h>
#include "cuda_util.cuh"
#include "kernel.inc"
#ifndef PER_THREAD
#define PER_THREAD 1
#endif
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)
using torch::Tensor;

__host__ __device__ inline float noise(uint32_t i, uint32_t c) { // in [0, 1)
  uint32_t h = i * 2654435761u + c * 2246822519u;
  h ^= h >> 15; h *= 2246822519u; h ^= h >> 13; h *= 3266489917u; h ^= h >> 16;
  return (h >> 8) * (1.f / 16777216.f);
}
__host__ __device__ inline float data0(uint32_t i) { return noise(i, 1) - 0.5f; }
__host__ __device__ inline float rms0(uint32_t i) { float u = noise(i, 2); return u < 0.1f ? 0.f : 1e-6f * u; }
__host__ __device__ inline float grad0(uint32_t i) { return 2e-3f * (noise(i, 3) - 0.5f); }
__global__ void setup_values(float* data, float* rms, float* grad, uint32_t n) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { data[i] = data0(i); rms[i] = rms0(i); grad[i] = grad0(i); }
}

int main() {
  srand(3);
  const int64_t rows = 3000000, C = 27, Q = 300000, n = rows * C;
  // sorted row numbers in runs of neighbours, as cells along rays are
  std::vector<int64_t> idx;
  int64_t at = 0;
  while ((int64_t)idx.size() < Q) {
    at += 1 + rand() % 50;
    for (int k = 1 + rand() % 5; k > 0 && (int64_t)idx.size() < Q && at < rows; k--) idx.push_back(at++);
    if (at >= rows) { printf("FAIL rows\n"); return 1; }
  }
  float *d, *r, *g, *d1, *r1, *g1;
  int64_t* di;
  for (float** p : {&d, &r, &g, &d1, &r1, &g1}) CK(cudaMalloc(p, n * 4));
  CK(cudaMalloc(&di, Q * 8));
  CK(cudaMemcpy(di, idx.data(), Q * 8, cudaMemcpyHostToDevice));
  setup_values<<<(n + 255) / 256, 256>>>(d1, r1, g1, (uint32_t)n);
  CK(cudaDeviceSynchronize());
  const float beta = 0.95f, lr = 1e-2f, eps = 1e-8f, least = -1e9f;
  Tensor td(d, {rows, C}), tr(r, {rows, C}), tg(g, {rows, C}), ti(di, {Q});
  const int per = 256 * PER_THREAD, blocks = (int)((Q * C - 1) / per + 1);
  for (int it = 0; it < 6; it++) {
    CK(cudaMemcpy(d, d1, n * 4, cudaMemcpyDeviceToDevice));
    CK(cudaMemcpy(r, r1, n * 4, cudaMemcpyDeviceToDevice));
    CK(cudaMemcpy(g, g1, n * 4, cudaMemcpyDeviceToDevice));
    device::rmsprop_index_step_kernel<<<blocks, 256>>>(
        td.packed_accessor64<float, 2, torch::RestrictPtrTraits>(), tr.packed_accessor64<float, 2, torch::RestrictPtrTraits>(),
        tg.packed_accessor64<float, 2, torch::RestrictPtrTraits>(), ti.packed_accessor32<int64_t, 1, torch::RestrictPtrTraits>(), beta, lr,
        eps, least, lr);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  std::vector<float> hd(n), hr(n), hg(n);
  CK(cudaMemcpy(hd.data(), d, n * 4, cudaMemcpyDeviceToHost));
  CK(cudaMemcpy(hr.data(), r, n * 4, cudaMemcpyDeviceToHost));
  CK(cudaMemcpy(hg.data(), g, n * 4, cudaMemcpyDeviceToHost));
  size_t bad = 0;
  double sd = 0, sr = 0, sg = 0;
  for (int64_t row : idx)
    for (int c = 0; c < C; c++) {
      size_t i = row * C + c;
      double q = grad0(i), m = rms0(i);
      m = m == 0 ? q * q : q * q + beta * (m - q * q);
      double w = data0(i) - lr * q / (sqrt(m) + eps);
      bad += !(fabs(hd[i] - w) < 1e-4) || !(fabs(hr[i] - m) <= 1e-4 * m + 1e-14) || hg[i] != 0;
    }
  for (int64_t i = 0; i < n; i += 5) { sd += fabs(hd[i]); sr += fabs(hr[i]); sg += fabs(hg[i]); }
  if (bad) printf("FAIL %zu elements differ\n", bad); else printf("PASS\n");
  printf("checksum %.4g %.4g %.4g\n", sd, sr, sg);
  return bad != 0;
}
