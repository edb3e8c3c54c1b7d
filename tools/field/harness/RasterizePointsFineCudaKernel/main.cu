// Fine rasterization of a point cloud: 512 x 512 picture, 100000 points, 8 points a pixel, bins of 32 pixels.
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <algorithm>
#include <vector>
#include "utils.inc"
#include "kernel.inc"
#ifndef BLOCKS
#define BLOCKS 1024
#endif
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

static uint64_t state = 12345;
static float rnd() { // uniform in [0, 1)
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (float)((state >> 40) * (1.0 / 16777216.0));
}
static float ndc(int i, int s) { return -1.f + (2.f * i + 1.f) / s; }

int main() {
  const int P = 100000, H = 512, W = 512, K = 8, bin = 32, BH = H / bin, BW = W / bin, M = std::max(10000, P / 5);
  std::vector<float> pts(3 * P), rad(P, 0.01f);
  for (int i = 0; i < P; i++) {
    float x, y, z;
    if (i % 10 < 6) { // the surface of a ball
      float c = 2 * rnd() - 1, a = 6.2831853f * rnd(), s = sqrtf(1 - c * c);
      x = 0.55f * s * cosf(a); y = 0.55f * s * sinf(a) + 0.1f; z = 2.f + 0.55f * c;
    } else { // the ground and scattered points
      x = 2 * rnd() - 1; y = -0.9f + 0.9f * rnd() * rnd(); z = 1.f + 2.f * rnd();
    }
    pts[3 * i] = x; pts[3 * i + 1] = y; pts[3 * i + 2] = z;
  }
  std::vector<int32_t> lists((size_t)BH * BW * M, -1);
  std::vector<int> used(BH * BW, 0);
  for (int i = 0; i < P; i++) {
    float r = rad[i];
    int x0 = (int)floorf((pts[3 * i] - r + 1) * W / 2 / bin), x1 = (int)floorf((pts[3 * i] + r + 1) * W / 2 / bin);
    int y0 = (int)floorf((pts[3 * i + 1] - r + 1) * H / 2 / bin), y1 = (int)floorf((pts[3 * i + 1] + r + 1) * H / 2 / bin);
    for (int y = std::max(y0, 0); y <= std::min(y1, BH - 1); y++)
      for (int x = std::max(x0, 0); x <= std::min(x1, BW - 1); x++) {
        int b = y * BW + x;
        if (used[b] < M) lists[(size_t)b * M + used[b]++] = i;
      }
  }
  float *dp, *dr, *dz, *dd; int32_t *dl, *di;
  const size_t n = (size_t)H * W * K;
  CK(cudaMalloc(&dp, pts.size() * 4)); CK(cudaMalloc(&dr, P * 4)); CK(cudaMalloc(&dl, lists.size() * 4));
  CK(cudaMalloc(&dz, n * 4)); CK(cudaMalloc(&dd, n * 4)); CK(cudaMalloc(&di, n * 4));
  CK(cudaMemcpy(dp, pts.data(), pts.size() * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dr, rad.data(), P * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dl, lists.data(), lists.size() * 4, cudaMemcpyHostToDevice));
  std::vector<float> z(n, -1.f), d(n);
  CK(cudaMemcpy(dz, z.data(), n * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dd, z.data(), n * 4, cudaMemcpyHostToDevice));
  CK(cudaMemset(di, 0xff, n * 4));
  for (int it = 0; it < 6; it++) {
    RasterizePointsFineCudaKernel<<<BLOCKS, 64>>>(dp, dl, dr, bin, 1, BH, BW, M, H, W, K, di, dz, dd);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  std::vector<int32_t> id(n);
  CK(cudaMemcpy(z.data(), dz, n * 4, cudaMemcpyDeviceToHost));
  CK(cudaMemcpy(d.data(), dd, n * 4, cudaMemcpyDeviceToHost));
  CK(cudaMemcpy(id.data(), di, n * 4, cudaMemcpyDeviceToHost));
  int bad = 0, hits = 0;
  const int S = 200;
  for (int s = 0; s < S; s++) {
    int yi = (int)(rnd() * H), xi = (int)(rnd() * W);
    std::vector<std::pair<float, int>> q;
    float xf = ndc(xi, W), yf = ndc(yi, H);
    for (int i = 0; i < P; i++) {
      float dx = xf - pts[3 * i], dy = yf - pts[3 * i + 1];
      if (dx * dx + dy * dy < rad[i] * rad[i]) q.push_back({pts[3 * i + 2], i});
    }
    std::sort(q.begin(), q.end());
    size_t at = ((size_t)(H - 1 - yi) * W + (W - 1 - xi)) * K;
    bool wrong = false;
    for (int k = 0; k < K; k++) {
      float want = k < (int)q.size() ? q[k].first : -1.f;
      hits += k < (int)q.size();
      if (fabsf(want - z[at + k]) > 1e-6f) wrong = true;
    }
    bad += wrong;
  }
  double sz = 0, sd = 0, si = 0;
  for (size_t i = 0; i < n; i++) { sz += fabs(z[i]); sd += fabs(d[i]); si += id[i] + 1; }
  if (bad > 4 || hits == 0) printf("FAIL %d of %d pixels differ (%d hits)\n", bad, S, hits);
  else printf("PASS\n");
  printf("checksum %.4g %.4g %.4g\n", sz, sd, si);
  return bad > 4;
}
