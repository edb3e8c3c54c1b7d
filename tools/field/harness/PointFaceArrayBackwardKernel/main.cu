// Gradients of all squared distances between 2048 points and 1280 triangles of a bumpy sphere.
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "geometry_utils.cuh"
#include "kernel.inc"
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

struct V { double x, y, z; };
static V operator-(V a, V b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
static V along(V a, double t, V d) { return {a.x + t * d.x, a.y + t * d.y, a.z + t * d.z}; }
static double inner(V a, V b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static V vec(const float* f) { return {f[0], f[1], f[2]}; }
static V nearest(V p, V a, V b, V c) { // the triangle's nearest point to p
  V u = b - a, v = c - a, w = p - a;
  double uu = inner(u, u), uv = inner(u, v), vv = inner(v, v), wu = inner(w, u), wv = inner(w, v), den = uu * vv - uv * uv;
  double s = (vv * wu - uv * wv) / den, t = (uu * wv - uv * wu) / den;
  if (s >= 0 && t >= 0 && s + t <= 1) return along(along(a, s, u), t, v);
  V e[3][2] = {{a, b}, {a, c}, {b, c}}, best = a;
  double least = 1e30;
  for (auto& g : e) {
    V d = g[1] - g[0];
    V q = along(g[0], fmin(1, fmax(0, inner(p - g[0], d) / inner(d, d))), d);
    if (inner(p - q, p - q) < least) { least = inner(p - q, p - q); best = q; }
  }
  return best;
}
static float rnd() { return rand() / (float)RAND_MAX; }
static void on_sphere(float r, float* o) {
  float c = 2 * rnd() - 1, a = 6.2831853f * rnd(), s = sqrtf(1 - c * c);
  o[0] = r * s * cosf(a); o[1] = r * s * sinf(a); o[2] = r * c;
}

int main() {
  srand(11);
  const int P = 2048, T = 1280;
  std::vector<float> pts(3 * P), tri(9 * T), gd((size_t)P * T), gp(3 * P), gt(9 * T);
  for (int i = 0; i < P; i++) on_sphere(0.9f + 0.2f * rnd(), &pts[3 * i]);
  for (int i = 0; i < T; i++) {
    float c[3];
    on_sphere(1.f + 0.05f * rnd(), c);
    for (int k = 0; k < 9; k++) tri[9 * i + k] = c[k % 3] + (k / 3 == k % 3 ? 0.1f : 0.f) + 0.03f * (rnd() - 0.5f);
  }
  for (auto& g : gd) g = (0.5f + rnd()) / 1000;
  float *dp, *dt, *dg, *ogp, *ogt;
  CK(cudaMalloc(&dp, 3 * P * 4)); CK(cudaMalloc(&dt, 9 * T * 4)); CK(cudaMalloc(&dg, gd.size() * 4));
  CK(cudaMalloc(&ogp, 3 * P * 4)); CK(cudaMalloc(&ogt, 9 * T * 4));
  CK(cudaMemcpy(dp, pts.data(), 3 * P * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dt, tri.data(), 9 * T * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(dg, gd.data(), gd.size() * 4, cudaMemcpyHostToDevice));
  for (int it = 0; it < 6; it++) {
    CK(cudaMemset(ogp, 0, 3 * P * 4));
    CK(cudaMemset(ogt, 0, 9 * T * 4));
    PointFaceArrayBackwardKernel<<<1024, 64>>>(dp, dt, dg, ogp, ogt, P, T, 5e-3);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  CK(cudaMemcpy(gp.data(), ogp, 3 * P * 4, cudaMemcpyDeviceToHost));
  CK(cudaMemcpy(gt.data(), ogt, 9 * T * 4, cudaMemcpyDeviceToHost));
  // A point's gradient is the sum of 2 g (p - nearest); a triangle's three vertex gradients add up to minus the same.
  int bad = 0;
  for (int s = 0; s < 64; s++) {
    bool point = s < 32;
    int i = rand() % (point ? P : T);
    V want = {0, 0, 0};
    double size = 0;
    for (int j = 0; j < (point ? T : P); j++) {
      int p = point ? i : j, t = point ? j : i;
      V a = vec(&pts[3 * p]), d = a - nearest(a, vec(&tri[9 * t]), vec(&tri[9 * t + 3]), vec(&tri[9 * t + 6]));
      double g = 2 * gd[(size_t)p * T + t] * (point ? 1 : -1);
      want = along(want, g, d);
      size += fabs(g) * sqrt(inner(d, d));
    }
    V got = point ? vec(&gp[3 * i]) : along(along(vec(&gt[9 * i]), 1, vec(&gt[9 * i + 3])), 1, vec(&gt[9 * i + 6]));
    V e = got - want;
    if (!(sqrt(inner(e, e)) < 2e-3 * size)) bad++;
  }
  double sp = 0, st = 0;
  for (float f : gp) sp += fabs(f);
  for (float f : gt) st += fabs(f);
  if (bad) printf("FAIL %d of 64 gradients differ\n", bad); else printf("PASS\n");
  printf("checksum %.3g %.3g\n", sp, st);
  return bad != 0;
}
