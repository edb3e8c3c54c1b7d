// Runs the backward pass of face attribute interpolation alone: 8 pictures of 256x256, 3 attributes,
// each a ball of 61 x 48 quads cut into 5856 triangles that fills about half of the picture.
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>
#include "kernel.inc"

#define CHECK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

static uint32_t seed = 987654321u;
static float rnd() { seed ^= seed << 13; seed ^= seed >> 17; seed ^= seed << 5; return (seed >> 8) * (1.f / 16777216.f); }

int main() {
  const int N = 8, S = 256, NU = 61, NV = 48, FM = NU * NV * 2;
  const size_t P = (size_t)N * S * S, F = (size_t)N * FM, D = 3;
  std::vector<int64_t> p2f(P, -1);
  std::vector<float> bary(P * 3, -1.f), attr(F * 3 * D), gp(P * D), gb(P * 3), gf(F * 3 * D);
  for (int n = 0; n < N; n++) for (int j = 0; j < S; j++) for (int i = 0; i < S; i++) {
    size_t p = ((size_t)n * S + j) * S + i;
    float x = (i + 0.5f) / S * 2 - 1, y = (j + 0.5f) / S * 2 - 1, R = 0.8f, r2 = (x * x + y * y) / (R * R);
    if (r2 >= 0.999f) continue;
    float z = sqrtf(1 - r2), th = acosf(fminf(fmaxf(y / R, -1.f), 1.f)), ph = atan2f(x / R, z) + 3.14159265f + 0.3f * n;
    float u = ph / 6.2831853f * NU, v = th / 3.14159265f * NV;
    int iu = (int)floorf(u), iv = (int)floorf(v); float fu = u - iu, fv = v - iv;
    iu = (iu % NU + NU) % NU; if (iv >= NV) iv = NV - 1;
    int up = fu + fv > 1.f;
    p2f[p] = (int64_t)n * FM + (iv * NU + iu) * 2 + up;
    float b1 = up ? 1 - fu : fu, b2 = up ? 1 - fv : fv;
    bary[p * 3] = 1 - b1 - b2; bary[p * 3 + 1] = b1; bary[p * 3 + 2] = b2;
  }
  for (auto& v : attr) v = rnd();
  for (auto& v : gp) v = rnd() * 2 - 1;
  int64_t* d_p2f; float *d_b, *d_a, *d_g, *d_gb, *d_gf;
  CHECK(cudaMalloc(&d_p2f, P * 8)); CHECK(cudaMalloc(&d_b, P * 12)); CHECK(cudaMalloc(&d_a, F * 3 * D * 4));
  CHECK(cudaMalloc(&d_g, P * D * 4)); CHECK(cudaMalloc(&d_gb, P * 12)); CHECK(cudaMalloc(&d_gf, F * 3 * D * 4));
  CHECK(cudaMemcpy(d_p2f, p2f.data(), P * 8, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_b, bary.data(), P * 12, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_a, attr.data(), F * 3 * D * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_g, gp.data(), P * D * 4, cudaMemcpyHostToDevice));
  for (int r = 0; r < 6; r++) {
    CHECK(cudaMemset(d_gb, 0, P * 12)); CHECK(cudaMemset(d_gf, 0, F * 3 * D * 4));
    InterpFaceAttrsBackwardKernel<float><<<512, 1024>>>(d_p2f, d_b, d_a, d_g, d_gb, d_gf, P, F, D);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaMemcpy(gb.data(), d_gb, P * 12, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(gf.data(), d_gf, F * 3 * D * 4, cudaMemcpyDeviceToHost));
  std::vector<double> rb(P * 3), rf(F * 3 * D);
  for (size_t p = 0; p < P; p++) if (p2f[p] >= 0) for (int i = 0; i < 3; i++) for (size_t d = 0; d < D; d++) {
    size_t a = p2f[p] * 3 * D + i * D + d;
    rb[p * 3 + i] += (double)attr[a] * gp[p * D + d];
    rf[a] += (double)bary[p * 3 + i] * gp[p * D + d];
  }
  double sb = 0, sf = 0; long bad = 0;
  for (size_t k = 0; k < rb.size(); k++) { sb += fabs((double)gb[k]); bad += !(fabs(rb[k] - gb[k]) < 1e-4); }
  for (size_t k = 0; k < rf.size(); k++) { sf += fabs((double)gf[k]); bad += !(fabs(rf[k] - gf[k]) < 1e-3); }
  if (bad) printf("FAIL %ld differ\n", bad); else printf("PASS\n");
  printf("checksum %.4g %.4g\n", sb, sf);
  return bad != 0;
}
