// Runs the naive mesh rasterizer alone: one 256x256 picture of a lumpy ball of 5856 triangles,
// one face a pixel, no blur, perspective correct.
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <thrust/tuple.h>
#include "rasterize_points/rasterization_utils.cuh"
#include "utils/float_math.cuh"
#include "utils/geometry_utils.cuh"
#include "kernel.inc"

#define CHECK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

static void vertex(int u, int v, float* o) {  // screen x, y and depth of a point of the ball
  const int NU = 61, NV = 48;
  double ph = 6.283185307179586 * (u % NU) / NU, th = 3.141592653589793 * v / NV;
  double r = 1.0 + 0.12 * sin(3 * ph) * sin(th) * sin(th) + 0.08 * cos(5 * th);
  double x = r * sin(th) * cos(ph), y = r * cos(th), z = r * sin(th) * sin(ph) + 2.7;
  o[0] = (float)(1.73 * x / z); o[1] = (float)(1.73 * y / z); o[2] = (float)z;
}

int main() {
  const int NU = 61, NV = 48, F = NU * NV * 2, N = 1, H = 256, W = 256, K = 1, P = N * H * W * K;
  std::vector<float> fv((size_t)F * 9);
  for (int v = 0; v < NV; v++) for (int u = 0; u < NU; u++) {
    float* f = &fv[(size_t)(v * NU + u) * 18];
    vertex(u, v, f); vertex(u + 1, v, f + 3); vertex(u, v + 1, f + 6);
    vertex(u + 1, v + 1, f + 9); vertex(u, v + 1, f + 12); vertex(u + 1, v, f + 15);
  }
  std::vector<int64_t> first(1, 0), num(1, F), neigh(F, -1), idx(P);
  std::vector<float> z(P), dist(P), bar((size_t)P * 3);
  float *d_fv, *d_z, *d_d, *d_b; int64_t *d_first, *d_num, *d_ne, *d_i;
  CHECK(cudaMalloc(&d_fv, fv.size() * 4)); CHECK(cudaMalloc(&d_z, P * 4)); CHECK(cudaMalloc(&d_d, P * 4));
  CHECK(cudaMalloc(&d_b, P * 12)); CHECK(cudaMalloc(&d_first, 8)); CHECK(cudaMalloc(&d_num, 8));
  CHECK(cudaMalloc(&d_ne, F * 8)); CHECK(cudaMalloc(&d_i, P * 8));
  CHECK(cudaMemcpy(d_fv, fv.data(), fv.size() * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_first, first.data(), 8, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_num, num.data(), 8, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_ne, neigh.data(), F * 8, cudaMemcpyHostToDevice));
  std::vector<float> minus((size_t)P * 3, -1.f);
  for (int r = 0; r < 6; r++) {
    CHECK(cudaMemset(d_i, 0xff, P * 8));
    CHECK(cudaMemcpy(d_z, minus.data(), P * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_d, minus.data(), P * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, minus.data(), P * 12, cudaMemcpyHostToDevice));
    RasterizeMeshesNaiveCudaKernel<<<1024, 64>>>(
        d_fv, d_first, d_num, d_ne, 0.f, true, false, false, N, H, W, K, d_i, d_z, d_d, d_b);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaMemcpy(idx.data(), d_i, P * 8, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(z.data(), d_z, P * 4, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(dist.data(), d_d, P * 4, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(bar.data(), d_b, P * 12, cudaMemcpyDeviceToHost));
  // reference depth of every 37th pixel, in double
  int seen = 0, bad = 0;
  for (int p = 0; p < P; p += 37) {
    double px = -1 + (2.0 * (W - 1 - p % W) + 1) / W, py = -1 + (2.0 * (H - 1 - p / W) + 1) / H, best = 1e9;
    for (int f = 0; f < F; f++) {
      const float* a = &fv[(size_t)f * 9];
      auto edge = [](double x, double y, const float* s, const float* t) {
        return (x - s[0]) * (t[1] - s[1]) - (y - s[1]) * (t[0] - s[0]); };
      double A = edge(a[6], a[7], a, a + 3);
      if (fabs(A) <= 1e-8) continue;
      double w0 = edge(px, py, a + 3, a + 6) / A, w1 = edge(px, py, a + 6, a) / A, w2 = edge(px, py, a, a + 3) / A;
      if (w0 <= 0 || w1 <= 0 || w2 <= 0) continue;
      best = fmin(best, 1 / (w0 / a[2] + w1 / a[5] + w2 / a[8]));
    }
    seen++;
    bad += best > 1e8 ? idx[p] >= 0 : !(idx[p] >= 0 && fabs(best - z[p]) < 2e-3);
  }
  double sz = 0, sd = 0, sb = 0; int hit = 0;
  for (int p = 0; p < P; p++) { hit += idx[p] >= 0; sz += z[p]; sd += fabs(dist[p]); sb += fabs(bar[p * 3]) + fabs(bar[p * 3 + 1]); }
  if (bad * 200 > seen) printf("FAIL %d of %d differ\n", bad, seen); else printf("PASS\n");
  printf("covered %.3g checksum %.4g %.4g %.4g\n", (double)hit, sz, sd, sb);
  return bad * 200 > seen;
}
