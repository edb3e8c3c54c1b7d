// Kept signs of a ReLU layer, uncompressed for the backward pass: 128 sequences x 50 frames, 1536 units.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include "cudamatrix/cu-matrixdim.h"
typedef float BaseFloat;
#include "kernel.inc"
#include "launch.inc"
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL cuda %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

int main() {
  const int rows = 6400, cols = 1536, stride = 1536;
  const float scale = 1.0f;
  const size_t size = size_t(rows) * cols;
  std::mt19937 rng(5);
  std::vector<uint8_t> src(size);
  for (auto &v : src) v = (rng() >> 9) % 5 < 2;
  std::vector<float> out(size_t(rows) * stride);
  uint8_t *dsrc;
  float *dout;
  CK(cudaMalloc(&dsrc, size));
  CK(cudaMalloc(&dout, out.size() * 4));
  CK(cudaMemcpy(dsrc, src.data(), size, cudaMemcpyHostToDevice));
  CK(cudaMemset(dout, 0xff, out.size() * 4));
  MatrixDim dim;
  dim.rows = rows;
  dim.cols = cols;
  dim.stride = stride;
  for (int it = 0; it < 6; it++) {
    launch(dout, dim, dsrc, cols, scale);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  CK(cudaMemcpy(out.data(), dout, out.size() * 4, cudaMemcpyDeviceToHost));
  size_t bad = 0;
  double sum = 0;
  for (int r = 0; r < rows; r++)
    for (int k = 0; k < cols; k++) {
      float got = out[size_t(r) * stride + k];
      bad += !(got == src[size_t(r) * cols + k] * scale);
      sum += std::fabs(got);
    }
  if (bad) printf("FAIL %zu wrong\n", bad); else printf("PASS\n");
  printf("checksum %.4g\n", sum);
  return bad != 0;
}
