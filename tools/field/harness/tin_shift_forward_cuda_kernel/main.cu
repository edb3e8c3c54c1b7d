// Temporal interlacing of a ResNet-50 stage: 6 clips of 8 frames, 64 of 256 channels, 56x56, 4 shift groups.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include "stub.h"
#include "kernel.inc"
#include "launch.inc"
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL cuda %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

int main() {
  const int n = 6, t = 8, c = 64, hw = 56 * 56, groups = 4;
  const size_t size = size_t(n) * t * c * hw;
  std::mt19937 rng(11);
  std::vector<float> in(size), out(size);
  for (auto &v : in) v = float(int(rng() >> 8) % 20001 - 10000) * 1e-4f;
  std::vector<int> shift(n * groups);
  for (int b = 0; b < n; b++)
    for (int g = 0; g < groups / 2; g++) {
      int s = int(rng() % 4);  // the second half of the groups moves the other way
      shift[b * groups + g] = s;
      shift[b * groups + g + groups / 2] = -s;
    }
  float *din, *dout;
  int *dsh;
  CK(cudaMalloc(&din, size * 4));
  CK(cudaMalloc(&dout, size * 4));
  CK(cudaMalloc(&dsh, shift.size() * 4));
  CK(cudaMemcpy(din, in.data(), size * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dsh, shift.data(), shift.size() * 4, cudaMemcpyHostToDevice));
  for (int it = 0; it < 6; it++) {
    CK(cudaMemset(dout, 0, size * 4));
    launch(din, dsh, dout, n, t, c, hw, groups);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  CK(cudaMemcpy(out.data(), dout, size * 4, cudaMemcpyDeviceToHost));
  size_t bad = 0, i = 0;
  double sum = 0;
  for (int b = 0; b < n; b++)
    for (int f = 0; f < t; f++)
      for (int ch = 0; ch < c; ch++) {
        int from = f - shift[b * groups + ch / (c / groups)];
        for (int x = 0; x < hw; x++, i++) {
          float want = from >= 0 && from < t ? in[((size_t(b) * t + from) * c + ch) * hw + x] : 0.f;
          bad += !(out[i] == want);
          sum += std::fabs(out[i]);
        }
      }
  if (bad) printf("FAIL %zu wrong\n", bad); else printf("PASS\n");
  printf("checksum %.4g\n", sum);
  return bad != 0;
}
