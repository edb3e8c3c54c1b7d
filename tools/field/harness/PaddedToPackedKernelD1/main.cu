// Padded values (one a face) of a batch of 16 meshes to packed form: 12000 to 30000 faces a mesh, float.
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <algorithm>
#include <vector>
#include "kernel.inc"
#ifndef LAUNCH
#define LAUNCH(batch, longest) <<<(batch), 512>>>
#endif
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

int main() {
  srand(7);
  const size_t B = 16;
  std::vector<int64_t> first(B);
  std::vector<int> len(B);
  size_t total = 0, longest = 0;
  for (size_t b = 0; b < B; b++) {
    len[b] = 12000 + rand() % 18001;
    first[b] = total;
    total += len[b];
    longest = std::max(longest, (size_t)len[b]);
  }
  std::vector<float> padded(B * longest, 0.f), packed(total), want(total);
  for (size_t b = 0; b < B; b++)
    for (int i = 0; i < len[b]; i++) want[first[b] + i] = padded[b * longest + i] = rand() / (float)RAND_MAX - 0.3f;
  float *din, *dout; int64_t* df;
  CK(cudaMalloc(&din, padded.size() * 4)); CK(cudaMalloc(&dout, total * 4)); CK(cudaMalloc(&df, B * 8));
  CK(cudaMemcpy(din, padded.data(), padded.size() * 4, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(df, first.data(), B * 8, cudaMemcpyHostToDevice));
  CK(cudaMemset(dout, 0, total * 4));
  for (int it = 0; it < 6; it++) {
    PaddedToPackedKernelD1<float> LAUNCH(B, longest)(din, df, dout, B, longest, total);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  CK(cudaMemcpy(packed.data(), dout, total * 4, cudaMemcpyDeviceToHost));
  size_t bad = 0;
  double sum = 0;
  for (size_t i = 0; i < total; i++) { bad += packed[i] != want[i]; sum += fabs(packed[i]); }
  if (bad) printf("FAIL %zu of %zu differ\n", bad, total); else printf("PASS\n");
  printf("checksum %.4g\n", sum);
  return bad != 0;
}
