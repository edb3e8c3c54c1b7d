// Runs the voxel compaction of marching cubes alone: a 256^3 field of a few blobs.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <initializer_list>
#include <cuda_runtime.h>
#include "accessor.h"
typedef unsigned int uint;
#include "kernel.inc"
#include "launch.h"

#define CHECK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

int main() {
  const int S = 256, V = S - 1;
  const uint n = (uint)V * V * V;
  std::vector<float> vol((size_t)S * S * S);
  const float c[4][4] = {{100, 120, 128, 62}, {160, 140, 110, 48}, {130, 60, 150, 30}, {128, 190, 180, 25}};
  for (int z = 0; z < S; z++) for (int y = 0; y < S; y++) for (int x = 0; x < S; x++) {
    float d = 1e9f;
    for (auto& b : c) {
      float q = sqrtf((x - b[0]) * (x - b[0]) + (y - b[1]) * (y - b[1]) + (z - b[2]) * (z - b[2])) - b[3];
      d = fminf(d, q);
    }
    vol[((size_t)z * S + y) * S + x] = d;
  }
  std::vector<int> occ(n), want;
  std::vector<int64_t> scan(n + 1);
  int64_t run = 0;
  for (uint v = 0; v < n; v++) {
    int x = v % V, y = v / V % V, z = v / (V * V), neg = 0;
    for (int i = 0; i < 8; i++)
      neg += vol[((size_t)(z + (i >> 2 & 1)) * S + y + (i >> 1 & 1)) * S + x + (i & 1)] < 0.f;
    occ[v] = neg > 0 && neg < 8;
    scan[v] = run; run += occ[v];
    if (occ[v]) want.push_back((int)v);
  }
  scan[n] = run;
  int *d_occ, *d_out; int64_t* d_scan;
  CHECK(cudaMalloc(&d_occ, n * sizeof(int)));
  CHECK(cudaMalloc(&d_scan, (n + 1) * sizeof(int64_t)));
  CHECK(cudaMalloc(&d_out, run * sizeof(int)));
  CHECK(cudaMemcpy(d_occ, occ.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_scan, scan.data(), (n + 1) * sizeof(int64_t), cudaMemcpyHostToDevice));
  at::PackedTensorAccessor32<int, 1, at::RestrictPtrTraits> a_out(d_out, {(int)run}), a_occ(d_occ, {(int)n});
  at::PackedTensorAccessor32<int64_t, 1, at::RestrictPtrTraits> a_scan(d_scan, {(int)(n + 1)});
  for (int r = 0; r < 6; r++) {
    CHECK(cudaMemset(d_out, 0, run * sizeof(int)));
    launch(a_out, a_occ, a_scan, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  std::vector<int> out(run);
  CHECK(cudaMemcpy(out.data(), d_out, run * sizeof(int), cudaMemcpyDeviceToHost));
  double sum = 0; long bad = 0;
  for (int64_t i = 0; i < run; i++) { sum += out[i]; bad += out[i] != want[i]; }
  if (bad) printf("FAIL %ld of %ld differ\n", bad, (long)run); else printf("PASS\n");
  printf("active %ld checksum %.4g\n", (long)run, sum);
  return bad != 0;
}
