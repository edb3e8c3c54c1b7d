// Gradient of picking the 512 object candidates out of 1024 seed points by score:
// a batch of 8 indoor scenes, 288 channels.
#include "util.h"
#include "loop.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>
#include "kernel.inc"

int main() {
  const int b = 8, c = 288, n = 1024, m = 512, threads = 512;
  Rng rng(15);
  std::vector<int> idx((size_t)b * m);
  for (int s = 0; s < b; ++s) {  // the best m of n scores, best first
    std::vector<float> score(n);
    for (float& v : score) v = rng.uniform();
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int i, int j) { return score[i] > score[j]; });
    std::copy(order.begin(), order.begin() + m, idx.begin() + (size_t)s * m);
  }
  std::vector<float> grad((size_t)b * c * m);
  for (float& g : grad) g = rng.normalish();

  float *d_grad, *d_points;
  int* d_idx;
  const size_t np = (size_t)b * c * n;
  CHECK(cudaMalloc(&d_grad, sizeof(float) * grad.size()));
  CHECK(cudaMalloc(&d_idx, sizeof(int) * idx.size()));
  CHECK(cudaMalloc(&d_points, sizeof(float) * np));
  CHECK(cudaMemcpy(d_grad, grad.data(), sizeof(float) * grad.size(), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_idx, idx.data(), sizeof(int) * idx.size(), cudaMemcpyHostToDevice));

  dim3 blocks(std::min((m + threads - 1) / threads, 4096), c, b);
  for (int it = 0; it < 6; ++it) {
    CHECK(cudaMemset(d_points, 0, sizeof(float) * np));
    gather_points_backward_cuda_kernel<float>
        <<<blocks, threads>>>(b, c, n, m, d_grad, d_idx, d_points);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());

  std::vector<float> got(np), ref(np, 0.0f);
  CHECK(cudaMemcpy(got.data(), d_points, sizeof(float) * np, cudaMemcpyDeviceToHost));
  for (int s = 0; s < b; ++s)
    for (int ch = 0; ch < c; ++ch)
      for (int j = 0; j < m; ++j)
        ref[((size_t)s * c + ch) * n + idx[(size_t)s * m + j]] += grad[((size_t)s * c + ch) * m + j];
  double worst = 0, sum = 0;
  for (size_t i = 0; i < np; ++i) {
    worst = std::max(worst, (double)std::fabs(ref[i] - got[i]));
    sum += std::fabs(got[i]);
  }
  std::printf("%s worst difference %s 1e-5\n", worst < 1e-5 ? "PASS" : "FAIL",
              worst < 1e-5 ? "<" : ">=");
  std::printf("checksum %.4g\n", sum);
  return 0;
}
