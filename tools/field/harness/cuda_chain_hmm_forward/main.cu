// Denominator forward pass of chain training: 128 sequences, 6000 HMM states with about 25 incoming arcs each,
// 3080 pdfs, 50 frames; six frames' steps.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include "chain/chain-datastruct.h"
#include "kernel.inc"
#include "launch.inc"
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL cuda %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

int main() {
  const int seqs = 128, states = 6000, pdfs = 3080, frames = 50, pstride = frames * seqs;
  std::mt19937 rng(17);
  auto u = [&] { return (float(rng() >> 8) + 0.5f) * (1.f / 16777216.f); };
  std::vector<Int32Pair> back(states);
  std::vector<DenominatorGraphTransition> tr;
  for (int h = 0; h < states; h++) {
    float g = std::sqrt(-2.f * std::log(u())) * std::cos(6.2831853f * u());
    int deg = int(15.f * std::exp(g));  // log-normal number of incoming arcs
    deg = deg < 1 ? 1 : deg > 300 ? 300 : deg;
    int base = (h % 44) * 70 + int(rng() % 67);  // the arcs into a state share a phone and a few pdfs
    back[h].first = int(tr.size());
    for (int k = 0; k < deg; k++) {
      DenominatorGraphTransition d;
      d.transition_prob = u() * 0.08f;
      d.pdf_id = base + int(rng() % 4);
      d.hmm_state = int(rng() % states);
      tr.push_back(d);
    }
    back[h].second = int(tr.size());
  }
  std::vector<float> probs(size_t(pdfs) * pstride), prev(size_t(states + 1) * seqs), cur(size_t(states) * seqs);
  for (auto &v : probs) v = 0.02f + 4.f * u() * u() * u();
  for (size_t i = 0; i < size_t(states) * seqs; i++) prev[i] = u() * u() * 1e-3f;
  for (int s = 0; s < seqs; s++) {
    double a = 0;
    for (int h = 0; h < states; h++) a += prev[size_t(h) * seqs + s];
    prev[size_t(states) * seqs + s] = float(a);
  }
  Int32Pair *db;
  DenominatorGraphTransition *dt;
  float *dp, *da, *dc;
  CK(cudaMalloc(&db, back.size() * sizeof(back[0])));
  CK(cudaMalloc(&dt, tr.size() * sizeof(tr[0])));
  CK(cudaMalloc(&dp, probs.size() * 4));
  CK(cudaMalloc(&da, prev.size() * 4));
  CK(cudaMalloc(&dc, cur.size() * 4));
  CK(cudaMemcpy(db, back.data(), back.size() * sizeof(back[0]), cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dt, tr.data(), tr.size() * sizeof(tr[0]), cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dp, probs.data(), probs.size() * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(da, prev.data(), prev.size() * 4, cudaMemcpyHostToDevice));
  CK(cudaMemset(dc, 0xff, cur.size() * 4));
  const int last = 5;
  for (int t = 0; t <= last; t++) {
    launch(db, dt, seqs, states, dp + size_t(t) * seqs, pstride, da, dc);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  CK(cudaMemcpy(cur.data(), dc, cur.size() * 4, cudaMemcpyDeviceToHost));
  size_t bad = 0;
  double sum = 0;
  for (float v : cur) sum += std::fabs(v);
  for (int h = 0; h < states; h += 7)
    for (int s = 0; s < seqs; s++) {
      double a = 0;
      for (int k = back[h].first; k < back[h].second; k++)
        a += double(prev[size_t(tr[k].hmm_state) * seqs + s]) * tr[k].transition_prob *
             probs[size_t(tr[k].pdf_id) * pstride + last * seqs + s];
      a /= prev[size_t(states) * seqs + s];
      bad += !(std::fabs(a - cur[size_t(h) * seqs + s]) <= 2e-5 * a);
    }
  if (bad) printf("FAIL %zu wrong\n", bad); else printf("PASS\n");
  printf("arcs %zu checksum %.4g\n", tr.size(), sum);
  return bad != 0;
}
