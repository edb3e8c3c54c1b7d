// Nearest centre of each point: 8 clouds of 4096 points, 1024 centres each, three dimensions.
#include "util.h"
#include "kernel.inc"
#ifndef BLOCK
#define BLOCK 1024
#endif
int main() {
  const int64_t B = 8, NX = 4096, NY = 1024, D = 3;
  std::mt19937 gen(2);
  std::uniform_real_distribution<float> u(-1.f, 1.f);
  std::vector<float> x(B * NX * D), y(B * NY * D);
  for (auto& v : x) v = u(gen);
  for (int64_t b = 0; b < B; b++)  // the centres are a sample of the points, slightly moved
    for (int64_t j = 0; j < NY; j++)
      for (int d = 0; d < D; d++) y[(b * NY + j) * D + d] = x[(b * NX + j * 4) * D + d] + 0.01f * u(gen);
  std::vector<int64_t> px(B + 1), py(B + 1);
  for (int64_t b = 0; b <= B; b++) px[b] = b * NX, py[b] = b * NY;
  float *dx = to_device(x), *dy = to_device(y);
  int64_t *dpx = to_device(px), *dpy = to_device(py), *dout = device_zeros<int64_t>(B * NX);
  for (int it = 0; it < 6; it++)
    nearest_kernel<float><<<B * NX, BLOCK>>>(dx, dy, dpx, dpy, dout, B, D);
  finish();
  auto out = to_host(dout, B * NX);
  int bad = 0;
  double sum = 0;
  auto dist = [&](int64_t i, int64_t j) {
    double s = 0;
    for (int d = 0; d < D; d++) s += (double)(x[i * D + d] - y[j * D + d]) * (x[i * D + d] - y[j * D + d]);
    return s;
  };
  for (int64_t i = 0; i < B * NX; i += 17) {
    double best = 1e30;
    int64_t b = i / NX;
    for (int64_t j = b * NY; j < (b + 1) * NY; j++) best = std::min(best, dist(i, j));
    if (out[i] < b * NY || out[i] >= (b + 1) * NY || dist(i, out[i]) > best * 1.0001 + 1e-9) bad++;
  }
  for (auto v : out) sum += (double)v;
  printf(bad == 0 ? "PASS\n" : "FAIL %d points\n", bad);
  printf("checksum %.4g\n", sum);
}
