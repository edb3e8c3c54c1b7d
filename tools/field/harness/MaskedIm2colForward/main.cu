// Columns of a 3x3 masked convolution at the finest level of a detector with guided
// anchors: 256 channels of 100 x 168, and the places where objects are expected.
#include "util.h"
#include "loop.h"
#include <algorithm>
#include <cmath>
#include <vector>
#include "kernel.inc"

int main() {
  const int channels = 256, height = 100, width = 168, kh = 3, kw = 3, pad = 1, threads = 512;
  Rng rng(14);
  std::vector<bool> mask((size_t)height * width, false);
  for (int k = 0; k < 24; ++k) {  // object centres
    int h = 2 + rng.below(14), w = 2 + rng.below(14), y = rng.below(height), x = rng.below(width);
    for (int i = std::max(0, y - h / 2); i < std::min(height, y + h / 2 + 1); ++i)
      for (int j = std::max(0, x - w / 2); j < std::min(width, x + w / 2 + 1); ++j)
        if (rng.uniform() < 0.95f) mask[(size_t)i * width + j] = true;
  }
  for (int k = 0; k < 700; ++k) mask[rng.below(height * width)] = true;  // weak responses
  std::vector<int64_t> hs, ws;
  for (int i = 0; i < height; ++i)
    for (int j = 0; j < width; ++j)
      if (mask[(size_t)i * width + j]) {
        hs.push_back(i);
        ws.push_back(j);
      }
  const int count = (int)hs.size(), n = count * channels;
  std::vector<float> image((size_t)channels * height * width);
  for (float& v : image) v = rng.normalish();

  float *d_image, *d_col;
  int64_t *d_h, *d_w;
  const size_t cols = (size_t)n * kh * kw;
  CHECK(cudaMalloc(&d_image, sizeof(float) * image.size()));
  CHECK(cudaMalloc(&d_col, sizeof(float) * cols));
  CHECK(cudaMalloc(&d_h, sizeof(int64_t) * count));
  CHECK(cudaMalloc(&d_w, sizeof(int64_t) * count));
  CHECK(cudaMemcpy(d_image, image.data(), sizeof(float) * image.size(), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_h, hs.data(), sizeof(int64_t) * count, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_w, ws.data(), sizeof(int64_t) * count, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(d_col, 0xff, sizeof(float) * cols));

  const int blocks = std::min((n + threads - 1) / threads, 4096);
  for (int it = 0; it < 6; ++it) {
    MaskedIm2colForward<float><<<blocks, threads>>>(n, d_image, height, width, kh, kw, pad, pad,
                                                    d_h, d_w, count, d_col);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());

  std::vector<float> got(cols);
  CHECK(cudaMemcpy(got.data(), d_col, sizeof(float) * cols, cudaMemcpyDeviceToHost));
  size_t wrong = 0;
  double sum = 0;
  for (int c = 0; c < channels; ++c)
    for (int k = 0; k < kh * kw; ++k)
      for (int m = 0; m < count; ++m) {
        int y = (int)hs[m] - pad + k / kw, x = (int)ws[m] - pad + k % kw;
        bool in = y >= 0 && x >= 0 && y < height && x < width;
        float want = in ? image[((size_t)c * height + y) * width + x] : 0.0f;
        float g = got[((size_t)c * kh * kw + k) * count + m];
        wrong += !(g == want);
        sum += std::fabs(g);
      }
  std::printf("%s %zu of %zu wrong, %d places\n", wrong ? "FAIL" : "PASS", wrong, cols, count);
  std::printf("checksum %.4g\n", sum);
  return 0;
}
