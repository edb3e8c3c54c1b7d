// Voxel ids of a batch of point clouds: 8 scenes of 100,000 points, (x, y, z, scene) in float, voxels of 5 cm.
#include "util.h"
#include "kernel.inc"
int main() {
  const int64_t N = 800000, D = 4;
  std::mt19937 gen(1);
  std::uniform_real_distribution<float> u(0.f, 1.f);
  std::vector<float> pos(N * D), size = {0.05f, 0.05f, 0.05f, 1.f}, lo(D, 1e30f), hi(D, -1e30f);
  const float ext[3] = {8.f, 6.f, 3.f};
  for (int64_t i = 0; i < N; i++) {
    for (int d = 0; d < 3; d++) pos[i * D + d] = u(gen) * ext[d];
    pos[i * D + 3] = (float)(i / 100000);
    for (int d = 0; d < D; d++) {
      lo[d] = std::min(lo[d], pos[i * D + d]);
      hi[d] = std::max(hi[d], pos[i * D + d]);
    }
  }
  float *dpos = to_device(pos), *dsize = to_device(size), *dlo = to_device(lo), *dhi = to_device(hi);
  int64_t* dout = device_zeros<int64_t>(N);
  for (int it = 0; it < 6; it++)
    grid_kernel<float><<<(N + 1023) / 1024, 1024>>>(dpos, dsize, dlo, dhi, dout, D, N);
  finish();
  auto out = to_host(dout, N);
  int bad = 0;
  double sum = 0;
  for (int64_t i = 0; i < N; i++) {
    int64_t c = 0, k = 1;
    for (int d = 0; d < D; d++) {
      c += (int64_t)((pos[i * D + d] - lo[d]) / size[d]) * k;
      k *= (int64_t)((hi[d] - lo[d]) / size[d]) + 1;
    }
    bad += c != out[i];
    sum += (double)out[i];
  }
  printf(bad == 0 ? "PASS\n" : "FAIL %d ids differ\n", bad);
  printf("checksum %.4g\n", sum);
}
