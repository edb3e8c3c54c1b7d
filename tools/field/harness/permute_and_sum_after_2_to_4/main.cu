// 2:4 magnitude of a 288 x 16 weight matrix under 131072 column permutations (a batch of an exhaustive search).
#include "util.h"
#include "kernel.inc"
int main() {
  const unsigned rows = 288, cols = 16, stripes = cols / 4, P = 131072;
  std::mt19937 gen(5);
  std::normal_distribution<float> g(0.f, 1.f);
  std::vector<float> mat(rows * cols);
  for (unsigned r = 0; r < rows; r++)
    for (unsigned c = 0; c < cols; c++) mat[r * cols + c] = g(gen) * (0.2f + 0.1f * c);
  std::vector<unsigned> st(stripes), perm((size_t)P * cols);
  for (unsigned s = 0; s < stripes; s++) st[s] = s;
  for (unsigned p = 0; p < P; p++) {  // the first is the identity; groups of four in ascending order, as the search has them
    unsigned* q = &perm[(size_t)p * cols];
    for (unsigned c = 0; c < cols; c++) q[c] = c;
    if (p) std::shuffle(q, q + cols, gen);
    for (unsigned s = 0; s < stripes; s++) std::sort(q + 4 * s, q + 4 * s + 4);
  }
  float *dmat = to_device(mat), *dout = device_zeros<float>(P);
  unsigned *dst = to_device(st), *dperm = to_device(perm);
  for (int it = 0; it < 6; it++) {
    CK(cudaMemset(dout, 0, P * sizeof(float)));
    permute_and_sum_after_2_to_4<<<P, 32, 32 * stripes * 4 * 2 * sizeof(float)>>>(dmat, rows, cols, dst, stripes, dperm,
                                                                                 dout);
  }
  finish();
  auto out = to_host(dout, P);
  int bad = 0;
  double sum = 0;
  for (unsigned p = 0; p < P; p += 997) {
    double ref = 0;
    for (unsigned r = 0; r < rows; r++)
      for (unsigned s = 0; s < stripes; s++) {
        float v[4];
        for (int k = 0; k < 4; k++) v[k] = std::abs(mat[r * cols + perm[(size_t)p * cols + s * 4 + k]]);
        std::sort(v, v + 4);
        ref += v[2] + v[3];
      }
    if (std::abs(out[p] / ref - 1) > 1e-4) bad++;
  }
  for (auto v : out) sum += v;
  printf(bad == 0 ? "PASS\n" : "FAIL %d permutations\n", bad);
  printf("checksum %.4g\n", sum);
}
