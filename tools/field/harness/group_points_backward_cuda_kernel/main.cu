// Gradient of grouping: the second set abstraction of a point network on indoor
// scenes (B = 8, 128 channels, 2048 points, 1024 balls of radius 0.4 with 32 samples).
#include "util.h"
#include "loop.h"
#include <algorithm>
#include <cmath>
#include <vector>
#include "kernel.inc"

int main() {
  const int b = 8, c = 128, n = 2048, npoints = 1024, nsample = 32, threads = 512;
  const size_t rows = (size_t)npoints * nsample, outs = (size_t)b * c * rows;
  Rng rng(12);

  // points on the floor, the walls and the furniture of an 8 x 6 x 3 m room
  std::vector<int> idx((size_t)b * rows);
  for (int s = 0; s < b; ++s) {
    struct P { float x, y, z; };
    std::vector<P> p(n);
    for (P& q : p) {
      float u = rng.uniform();
      q = {rng.uniform(0, 8), rng.uniform(0, 6), rng.uniform(0, 3)};
      if (u < 0.35f) q.z = 0.02f * rng.uniform();
      else if (u < 0.5f) q.x = rng.next() & 1 ? 0.0f : 8.0f;
      else if (u < 0.65f) q.y = rng.next() & 1 ? 0.0f : 6.0f;
      else {  // tables and chairs
        int f = rng.below(12);
        q.x = 0.8f + (f % 4) * 2.0f + rng.uniform(-0.5f, 0.5f);
        q.y = 1.0f + (f / 4) * 2.0f + rng.uniform(-0.5f, 0.5f);
        q.z = 0.7f + 0.05f * rng.normalish();
      }
    }
    for (int k = 0; k < npoints; ++k) {  // centres are the first half (farthest first)
      int found = 0;
      int* out = &idx[(size_t)s * rows + (size_t)k * nsample];
      for (int j = 0; j < n && found < nsample; ++j) {
        float dx = p[j].x - p[k].x, dy = p[j].y - p[k].y, dz = p[j].z - p[k].z;
        if (dx * dx + dy * dy + dz * dz < 0.16f) {
          if (found == 0) std::fill(out, out + nsample, j);  // pad with the first one
          out[found++] = j;
        }
      }
    }
  }
  std::vector<float> grad(outs);
  for (float& g : grad) g = rng.uniform(-1, 1);

  float *d_grad, *d_points;
  int* d_idx;
  const size_t np = (size_t)b * c * n;
  CHECK(cudaMalloc(&d_grad, sizeof(float) * outs));
  CHECK(cudaMalloc(&d_idx, sizeof(int) * idx.size()));
  CHECK(cudaMalloc(&d_points, sizeof(float) * np));
  CHECK(cudaMemcpy(d_grad, grad.data(), sizeof(float) * outs, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_idx, idx.data(), sizeof(int) * idx.size(), cudaMemcpyHostToDevice));

  const int bx = std::min((int)((rows + threads - 1) / threads), 4096);
  dim3 blocks(bx, c, b);
  for (int it = 0; it < 6; ++it) {
    CHECK(cudaMemset(d_points, 0, sizeof(float) * np));
    group_points_backward_cuda_kernel<float>
        <<<blocks, threads>>>(b, c, n, npoints, nsample, d_grad, d_idx, d_points);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());

  std::vector<float> got(np);
  CHECK(cudaMemcpy(got.data(), d_points, sizeof(float) * np, cudaMemcpyDeviceToHost));
  double worst = 0, sum = 0;
  for (int t = 0; t < 16; ++t) {
    int s = t % b, ch = (t * 37) % c;
    std::vector<double> ref(n, 0.0);
    for (size_t i = 0; i < rows; ++i)
      ref[idx[s * rows + i]] += grad[((size_t)s * c + ch) * rows + i];
    for (int j = 0; j < n; ++j)
      worst = std::max(worst, std::fabs(ref[j] - got[((size_t)s * c + ch) * n + j]));
  }
  for (float g : got) sum += std::fabs(g);
  std::printf("%s worst difference %s 1e-3\n", worst < 1e-3 ? "PASS" : "FAIL",
              worst < 1e-3 ? "<" : ">=");
  std::printf("checksum %.4g\n", sum);
  return 0;
}
