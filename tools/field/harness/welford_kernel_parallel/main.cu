// Merge of the batch statistics of 64 ranks for 2048 channels (synchronised batch norm).
#include "util.h"
#include "merge.inc"
#include "kernel.inc"
#ifndef GRID
#define GRID 4
#endif
#ifndef BLOCK
#define BLOCK 512
#endif
int main() {
  const int W = 64, C = 2048;
  const float eps = 1e-5f;
  std::mt19937 gen(4);
  std::normal_distribution<float> g(0.f, 1.f);
  std::vector<float> mean(W * C), var(W * C);
  std::vector<int> num(W);
  for (auto& v : mean) v = 0.3f * g(gen);
  for (auto& v : var) v = 0.5f + std::abs(g(gen));
  for (int j = 0; j < W; j++) num[j] = 32 * 7 * 7 - (j == W - 1 ? 5 * 49 : 0);  // the last rank's batch is short
  float *dm = to_device(mean), *dv = to_device(var), *om = device_zeros<float>(C), *ov = device_zeros<float>(C),
        *oi = device_zeros<float>(C);
  int* dn = to_device(num);
  for (int it = 0; it < 6; it++) welford_kernel_parallel<float><<<GRID, BLOCK>>>(dm, dv, dn, om, ov, oi, W, C, eps);
  finish();
  auto hm = to_host(om, C), hv = to_host(ov, C), hi = to_host(oi, C);
  int bad = 0;
  double sm = 0, sv = 0, si = 0;
  for (int c = 0; c < C; c++) {
    double n = 0, m = 0, q = 0;
    for (int j = 0; j < W; j++) n += num[j], m += (double)num[j] * mean[j * C + c];
    m /= n;
    for (int j = 0; j < W; j++)
      q += num[j] * ((double)var[j * C + c] + (mean[j * C + c] - m) * (mean[j * C + c] - m));
    if (std::abs(hm[c] - m) > 1e-5 || std::abs(hv[c] / (q / (n - 1)) - 1) > 1e-4 ||
        std::abs(hi[c] * std::sqrt(q / n + eps) - 1) > 1e-4)
      bad++;
    sm += std::abs(hm[c]), sv += std::abs(hv[c]), si += std::abs(hi[c]);
  }
  printf(bad == 0 ? "PASS\n" : "FAIL %d channels\n", bad);
  printf("checksum %.4g %.4g %.4g\n", sm, sv, si);
}
