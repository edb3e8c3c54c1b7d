// Voxel coordinates of the points of four merged lidar sweeps (720000 points of 6
// features, 0.1 x 0.1 x 0.15 m voxels, 1504 x 1504 x 40).
#include "util.h"
#include "loop.h"
#include <algorithm>
#include <cmath>
#include <vector>
#include "kernel.inc"

int main() {
  const int n = 720000, features = 6, ndim = 3, threads = 512;
  const float vx = 0.1f, vy = 0.1f, vz = 0.15f;
  const float x0 = -75.2f, y0 = -75.2f, z0 = -2.0f, x1 = 75.2f, y1 = 75.2f, z1 = 4.0f;
  const int gx = (int)std::round((x1 - x0) / vx), gy = (int)std::round((y1 - y0) / vy),
            gz = (int)std::round((z1 - z0) / vz);
  Rng rng(13);
  std::vector<float> points((size_t)n * features);
  for (int i = 0; i < n; ++i) {
    // a ray of one of 64 beams at the azimuth of i; hits the ground or an object
    int beam = rng.below(64);
    float azimuth = 6.2831853f * ((i % 180000) / 180000.0f), pitch = -0.31f + beam * 0.0055f;
    float object = 6.0f + 90.0f * rng.uniform() * rng.uniform();
    float ground = pitch < -0.001f ? 1.9f / -tanf(pitch) : 1e9f;
    float r = std::min(object, ground);
    float* p = &points[(size_t)i * features];
    p[0] = r * cosf(azimuth) + 0.02f * rng.normalish();
    p[1] = r * sinf(azimuth) + 0.02f * rng.normalish();
    p[2] = 1.9f + r * tanf(pitch) + 0.03f * rng.normalish();
    p[3] = rng.uniform();
    p[4] = 0.1f * rng.uniform();
    p[5] = 0.1f * (i / 180000);
  }
  float* d_points;
  int* d_coors;
  const size_t bytes = sizeof(int) * (size_t)n * ndim;
  CHECK(cudaMalloc(&d_points, sizeof(float) * points.size()));
  CHECK(cudaMalloc(&d_coors, bytes));
  CHECK(cudaMemcpy(d_points, points.data(), sizeof(float) * points.size(), cudaMemcpyHostToDevice));

  const int blocks = (n + threads - 1) / threads;
  for (int it = 0; it < 6; ++it) {
    CHECK(cudaMemset(d_coors, 0, bytes));
    dynamic_voxelize_kernel<float, int>
        <<<blocks, threads>>>(d_points, d_coors, vx, vy, vz, x0, y0, z0, x1, y1, z1, gx, gy, gz,
                              n, features, ndim);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());

  std::vector<int> got((size_t)n * ndim);
  CHECK(cudaMemcpy(got.data(), d_coors, bytes, cudaMemcpyDeviceToHost));
  int wrong = 0, inside = 0;
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    const float* p = &points[(size_t)i * features];
    int c[3] = {(int)floorf((p[2] - z0) / vz), (int)floorf((p[1] - y0) / vy),
                (int)floorf((p[0] - x0) / vx)};
    int bad = c[2] < 0 || c[2] >= gx ? 1 : c[1] < 0 || c[1] >= gy ? 2 : c[0] < 0 || c[0] >= gz ? 3 : 0;
    for (int k = 0; k < 3 && bad; ++k) c[k] = k < bad ? -1 : 0;
    inside += !bad;
    const int* g = &got[(size_t)i * ndim];
    wrong += g[0] != c[0] || g[1] != c[1] || g[2] != c[2];
    sum += std::abs(g[0]) + std::abs(g[1]) + std::abs(g[2]);
  }
  // a point on the border of two voxels may fall to either side
  std::printf("%s %s; %.2f of the points inside\n", wrong <= n / 1000 ? "PASS" : "FAIL",
              wrong <= n / 1000 ? "coordinates agree" : "coordinates differ", (double)inside / n);
  std::printf("checksum %.4g\n", sum);
  return 0;
}
