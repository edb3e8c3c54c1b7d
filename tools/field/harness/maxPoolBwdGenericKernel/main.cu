// Sparse max pooling, backward: the left-over 63 rule pairs of one kernel offset, 128 planes, 20000 active sites in, 9000 out.
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <algorithm>
#include <vector>
#include <cuda_runtime.h>
#include "utils/spconv/tensorview/helper_kernel.cuh"
#include "kernel.inc"
#include "launch.inc"
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL cuda %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

int main() {
  const int nin = 20000, nout = 9000, planes = 128, hot = 63;
  std::mt19937 rng(7);
  std::uniform_real_distribution<float> u(0.f, 1.f);
  std::vector<float> in(size_t(nin) * planes), out(size_t(nout) * planes), fout(out.size()), fin(in.size());
  for (auto &v : in) v = u(rng);
  for (auto &v : out) v = 1.f + u(rng);
  for (auto &v : fout) v = u(rng) - 0.5f;
  std::vector<int> pi(nin), po(nout);
  std::iota(pi.begin(), pi.end(), 0);
  std::iota(po.begin(), po.end(), 0);
  std::shuffle(pi.begin(), pi.end(), rng);
  std::shuffle(po.begin(), po.end(), rng);
  pi.resize(hot);
  po.resize(hot);
  std::sort(pi.begin(), pi.end());
  std::sort(po.begin(), po.end());
  for (int h = 0; h < hot; h++)  // about a third of the pairs hold the maximum of their window
    for (int p = 0; p < planes; p++)
      if (u(rng) < 0.35f) out[size_t(po[h]) * planes + p] = in[size_t(pi[h]) * planes + p];
  float *din, *dout, *dfo, *dfi;
  int *dpi, *dpo;
  CK(cudaMalloc(&din, in.size() * 4));
  CK(cudaMalloc(&dfi, in.size() * 4));
  CK(cudaMalloc(&dout, out.size() * 4));
  CK(cudaMalloc(&dfo, out.size() * 4));
  CK(cudaMalloc(&dpi, hot * 4));
  CK(cudaMalloc(&dpo, hot * 4));
  CK(cudaMemcpy(din, in.data(), in.size() * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dout, out.data(), out.size() * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dfo, fout.data(), out.size() * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dpi, pi.data(), hot * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dpo, po.data(), hot * 4, cudaMemcpyHostToDevice));
  for (int it = 0; it < 6; it++) {
    CK(cudaMemset(dfi, 0, in.size() * 4));
    launch(dout, din, dfo, dfi, dpi, dpo, hot, planes);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  CK(cudaMemcpy(fin.data(), dfi, in.size() * 4, cudaMemcpyDeviceToHost));
  std::vector<float> ref(in.size(), 0.f);
  for (int h = 0; h < hot; h++)
    for (int p = 0; p < planes; p++) {
      size_t a = size_t(pi[h]) * planes + p, b = size_t(po[h]) * planes + p;
      if (in[a] == out[b]) ref[a] += fout[b];
    }
  size_t bad = 0;
  double sum = 0;
  for (size_t i = 0; i < ref.size(); i++) bad += !(std::fabs(ref[i] - fin[i]) < 1e-6f), sum += std::fabs(fin[i]);
  if (bad) printf("FAIL %zu wrong\n", bad); else printf("PASS\n");
  printf("checksum %.4g\n", sum);
  return bad != 0;
}
