// k = 20 nearest neighbours within 32 clouds of 1024 points, three dimensions (the graph of a DGCNN layer).
#include "util.h"
#include "utils.inc"
#include "kernel.inc"
#ifndef BLOCK
#define BLOCK 256
#endif
int main() {
  const int64_t B = 32, N = 1024, D = 3, K = 20, M = B * N;
  std::mt19937 gen(3);
  std::normal_distribution<float> g(0.f, 1.f);
  std::vector<float> x(M * D);
  for (int64_t i = 0; i < M; i++) {  // points on the unit sphere with a little noise
    float v[3], n = 0;
    for (auto& a : v) a = g(gen), n += a * a;
    for (int d = 0; d < 3; d++) x[i * 3 + d] = v[d] / std::sqrt(n) + 0.02f * g(gen);
  }
  std::vector<int64_t> ptr(B + 1);
  for (int64_t b = 0; b <= B; b++) ptr[b] = b * N;
  float* dx = to_device(x);
  int64_t *dptr = to_device(ptr), *drow = device_zeros<int64_t>(M * K), *dcol = device_zeros<int64_t>(M * K);
  for (int it = 0; it < 6; it++)
    knn_kernel<float><<<(M + BLOCK - 1) / BLOCK, BLOCK>>>(dx, dx, dptr, dptr, drow, dcol, K, M, M, D, B, false);
  finish();
  auto row = to_host(drow, M * K), col = to_host(dcol, M * K);
  auto dist = [&](int64_t i, int64_t j) {
    double s = 0;
    for (int d = 0; d < D; d++) s += (double)(x[i * D + d] - x[j * D + d]) * (x[i * D + d] - x[j * D + d]);
    return s;
  };
  int bad = 0;
  for (int64_t i = 0; i < M; i += 37) {
    std::vector<double> all;
    for (int64_t j = i / N * N; j < i / N * N + N; j++) all.push_back(dist(i, j));
    std::partial_sort(all.begin(), all.begin() + K, all.end());
    for (int e = 0; e < K; e++) {
      int64_t j = col[i * K + e];
      if (row[i * K + e] != i || j / N != i / N || std::abs(dist(i, j) - all[e]) > 1e-5 * all[e] + 1e-9) bad++;
    }
  }
  double sum = 0;
  for (auto v : col) sum += (double)v;
  for (auto v : row) sum += (double)v;
  printf(bad == 0 ? "PASS\n" : "FAIL %d neighbours\n", bad);
  printf("checksum %.4g\n", sum);
}
