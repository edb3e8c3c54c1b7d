// PointRCNN's second stage: 4 scans of 16384 points with 130 features, 128 boxes each, 512 sampled points a box.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include "stub.h"
#include "kernel.inc"
#include "launch.inc"
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL cuda %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

int main() {
  const int batch = 4, pts = 16384, boxes = 128, feat = 130, sampled = 512;
  std::mt19937 rng(3);
  auto u = [&] { return float(rng() >> 8) * (1.f / 16777216.f); };
  std::vector<float> xyz(size_t(batch) * pts * 3), f(size_t(batch) * pts * feat);
  for (auto &v : xyz) v = u() * 70.f - 20.f;
  for (auto &v : f) v = u() - 0.5f;
  std::vector<int> idx(size_t(batch) * boxes * sampled, 0), empty(batch * boxes, 0);
  for (int b = 0; b < batch * boxes; b++) {
    if (u() < 0.08f) { empty[b] = 1; continue; }  // boxes without a point
    int cnt = std::min(sampled, 4 + int(std::exp(3.0f + 3.5f * u())));  // points inside, then repeated to 512
    std::vector<int> in(cnt);
    for (auto &v : in) v = rng() % pts;
    std::sort(in.begin(), in.end());
    for (int k = 0; k < sampled; k++) idx[size_t(b) * sampled + k] = in[k % cnt];
  }
  const size_t osize = idx.size() * (3 + feat);
  std::vector<float> out(osize);
  float *dx, *df, *dout;
  int *di, *de;
  CK(cudaMalloc(&dx, xyz.size() * 4));
  CK(cudaMalloc(&df, f.size() * 4));
  CK(cudaMalloc(&dout, osize * 4));
  CK(cudaMalloc(&di, idx.size() * 4));
  CK(cudaMalloc(&de, empty.size() * 4));
  CK(cudaMemcpy(dx, xyz.data(), xyz.size() * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(df, f.data(), f.size() * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(di, idx.data(), idx.size() * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(de, empty.data(), empty.size() * 4, cudaMemcpyHostToDevice));
  for (int it = 0; it < 6; it++) {
    CK(cudaMemset(dout, 0, osize * 4));
    launch(batch, pts, boxes, feat, sampled, dx, di, df, dout, de);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  CK(cudaMemcpy(out.data(), dout, osize * 4, cudaMemcpyDeviceToHost));
  size_t bad = 0, o = 0;
  double sum = 0;
  for (size_t r = 0; r < idx.size(); r++) {
    size_t box = r / sampled, p = box / boxes * pts + idx[r];
    for (int k = 0; k < 3 + feat; k++, o++) {
      float want = empty[box] ? 0.f : k < 3 ? xyz[p * 3 + k] : f[p * feat + k - 3];
      bad += !(out[o] == want);
      sum += std::fabs(out[o]);
    }
  }
  if (bad) printf("FAIL %zu wrong\n", bad); else printf("PASS\n");
  printf("checksum %.4g\n", sum);
  return bad != 0;
}
