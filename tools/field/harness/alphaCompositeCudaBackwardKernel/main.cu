// Runs the backward pass of alpha compositing alone: one 512x512 picture of a cloud of 100000 points,
// at most 10 points a pixel, 3 channels.
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <cmath>
#include <vector>
#include <initializer_list>
#include <cuda_runtime.h>
#include "accessor.h"
#include "kernel.inc"

#define CHECK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

static uint32_t seed = 2463534242u;
static float rnd() { seed ^= seed << 13; seed ^= seed >> 17; seed ^= seed << 5; return (seed >> 8) * (1.f / 16777216.f); }

int main() {
  const int64_t N = 1, C = 3, H = 512, W = 512, K = 10, PT = 100000, HW = H * W;
  // points in random order over a disc, radius 2 pixels, nearest first = insertion order
  std::vector<int64_t> idx(K * HW, -1);
  std::vector<float> alpha(K * HW, 0.f), feat(C * PT), go(C * HW), ga(K * HW), gf(C * PT);
  std::vector<int> count(HW, 0);
  for (int64_t q = 0; q < PT; q++) {
    float r = sqrtf(rnd()) * 224.f, a = rnd() * 6.2831853f, px = 256 + r * cosf(a), py = 256 + r * sinf(a);
    for (int y = (int)py - 2; y <= (int)py + 2; y++) for (int x = (int)px - 2; x <= (int)px + 2; x++) {
      if (x < 0 || y < 0 || x >= W || y >= H) continue;
      float d2 = ((x + .5f - px) * (x + .5f - px) + (y + .5f - py) * (y + .5f - py)) / 4.f;
      int& c = count[y * W + x];
      if (d2 >= 1.f || c >= K) continue;
      idx[c * HW + y * W + x] = q;
      alpha[c * HW + y * W + x] = fminf(1.f - d2, 0.95f);
      c++;
    }
  }
  for (auto& v : feat) v = rnd();
  for (auto& v : go) v = rnd() * 2 - 1;
  int64_t* d_i; float *d_a, *d_f, *d_go, *d_ga, *d_gf;
  CHECK(cudaMalloc(&d_i, K * HW * 8)); CHECK(cudaMalloc(&d_a, K * HW * 4)); CHECK(cudaMalloc(&d_f, C * PT * 4));
  CHECK(cudaMalloc(&d_go, C * HW * 4)); CHECK(cudaMalloc(&d_ga, K * HW * 4)); CHECK(cudaMalloc(&d_gf, C * PT * 4));
  CHECK(cudaMemcpy(d_i, idx.data(), K * HW * 8, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_a, alpha.data(), K * HW * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_f, feat.data(), C * PT * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_go, go.data(), C * HW * 4, cudaMemcpyHostToDevice));
  typedef at::PackedTensorAccessor64<float, 2, at::RestrictPtrTraits> F2;
  typedef at::PackedTensorAccessor64<float, 4, at::RestrictPtrTraits> F4;
  typedef at::PackedTensorAccessor64<int64_t, 4, at::RestrictPtrTraits> I4;
  F2 a_gf(d_gf, {C, PT}), a_f(d_f, {C, PT});
  F4 a_ga(d_ga, {N, K, H, W}), a_go(d_go, {N, C, H, W}), a_a(d_a, {N, K, H, W});
  I4 a_i(d_i, {N, K, H, W});
  const dim3 block(64), grid(N, 1024 / N + 1);
  for (int r = 0; r < 6; r++) {
    CHECK(cudaMemset(d_ga, 0, K * HW * 4)); CHECK(cudaMemset(d_gf, 0, C * PT * 4));
    alphaCompositeCudaBackwardKernel<<<grid, block>>>(a_gf, a_ga, a_go, a_f, a_a, a_i);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaMemcpy(ga.data(), d_ga, K * HW * 4, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(gf.data(), d_gf, C * PT * 4, cudaMemcpyDeviceToHost));
  std::vector<double> rf(C * PT, 0.0);
  long bad = 0; double sa = 0, sf = 0;
  for (int64_t p = 0; p < HW; p++) {
    double w[16], s[16] = {0}, T = 1;  // visibility, and features . output gradient
    for (int k = 0; k < count[p]; k++) {
      w[k] = T; T *= 1 - alpha[k * HW + p];
      for (int c = 0; c < C; c++) {
        int64_t f = c * PT + idx[k * HW + p];
        s[k] += (double)feat[f] * go[c * HW + p];
        rf[f] += w[k] * alpha[k * HW + p] * go[c * HW + p];
      }
    }
    double later = 0;
    for (int k = count[p] - 1; k >= 0; k--) {
      double ref = w[k] * s[k] - later / (1 - alpha[k * HW + p]);
      later += s[k] * w[k] * alpha[k * HW + p];
      bad += !(fabs(ref - ga[k * HW + p]) < 1e-3);
    }
  }
  for (size_t k = 0; k < ga.size(); k++) sa += fabs((double)ga[k]);
  for (size_t k = 0; k < gf.size(); k++) { sf += fabs((double)gf[k]); bad += !(fabs(rf[k] - gf[k]) < 1e-3); }
  if (bad) printf("FAIL %ld differ\n", bad); else printf("PASS\n");
  printf("checksum %.4g %.4g\n", sa, sf);
  return bad != 0;
}
