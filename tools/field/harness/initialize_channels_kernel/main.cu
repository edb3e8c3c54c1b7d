// Start of a batch of the online i-vector extractor: 400 lanes of new utterances among 600 channels, 512 Gaussians,
// 40 features in rows padded to 256 bytes.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include "cudafeat/lane-desc.h"
using kaldi::LaneDesc;
#include "kernel.inc"
#include "launch.inc"
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL cuda %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

int main() {
  const int lanes = 400, channels = 600, gauss = 512, dim = 40, ldx = 64, stridex = ldx * gauss;
  std::mt19937 rng(23);
  std::vector<int> perm(channels);
  std::iota(perm.begin(), perm.end(), 0);
  std::shuffle(perm.begin(), perm.end(), rng);
  std::vector<LaneDesc> desc(lanes);
  std::vector<char> fresh(channels, 0);
  for (int l = 0; l < lanes; l++) {
    LaneDesc d = {};
    d.channel = perm[l];
    d.num_chunk_samples = 8000;
    d.num_chunk_frames = 50;
    d.current_frame = l % 50 == 49 ? 50 : 0;  // a few lanes carry on
    d.first = d.current_frame == 0;
    desc[l] = d;
    fresh[d.channel] = d.current_frame == 0;
  }
  const size_t gs = size_t(channels) * gauss, xs = size_t(channels) * stridex;
  std::vector<float> g(gs), x(xs);
  float *dg, *dx;
  LaneDesc *dl;
  CK(cudaMalloc(&dg, gs * 4));
  CK(cudaMalloc(&dx, xs * 4));
  CK(cudaMalloc(&dl, lanes * sizeof(LaneDesc)));
  CK(cudaMemcpy(dl, desc.data(), lanes * sizeof(LaneDesc), cudaMemcpyHostToDevice));
  for (int it = 0; it < 6; it++) {
    CK(cudaMemset(dg, 0x3f, gs * 4));
    CK(cudaMemset(dx, 0x3f, xs * 4));
    launch(gauss, dim, dg, gauss, dx, ldx, stridex, dl, lanes);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  CK(cudaMemcpy(g.data(), dg, gs * 4, cudaMemcpyDeviceToHost));
  CK(cudaMemcpy(x.data(), dx, xs * 4, cudaMemcpyDeviceToHost));
  size_t bad = 0;
  double sum = 0;
  for (size_t i = 0; i < gs; i++) bad += (g[i] == 0.f) != bool(fresh[i / gauss]), sum += g[i];
  for (size_t i = 0; i < xs; i++) bad += (x[i] == 0.f) != (fresh[i / stridex] && int(i % ldx) < dim), sum += x[i];
  if (bad) printf("FAIL %zu wrong\n", bad); else printf("PASS\n");
  printf("checksum %.4g\n", sum);
  return bad != 0;
}
