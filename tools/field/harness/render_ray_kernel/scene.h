// A sparse 512^3 scene: two hollow balls over a disc, with hash-made densities and 27 coefficients a cell, and camera rays.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <vector>
#define RES 512
#define NCOEF 27
__host__ __device__ inline float away(float x, float y, float z, float a, float b, float c) {
  return sqrtf((x - a) * (x - a) + (y - b) * (y - b) + (z - c) * (z - c));
}
__host__ __device__ inline bool solid(int x, int y, int z) {
  return fabsf(away(x, y, z, 256, 256, 270) - 160.f) < 3.f || fabsf(away(x, y, z, 400, 300, 260) - 80.f) < 3.f ||
         (z >= 90 && z < 94 && away(x, y, 0, 256, 256, 0) < 230.f);
}
__host__ __device__ inline float noise(int x, int y, int z, int c) { // in [0, 1)
  uint32_t h = (uint32_t)((x * RES + y) * RES + z) * 2654435761u + (uint32_t)c * 2246822519u;
  h ^= h >> 15; h *= 2246822519u; h ^= h >> 13; h *= 3266489917u; h ^= h >> 16;
  return (h >> 8) * (1.f / 16777216.f);
}
__host__ __device__ inline float density_of(int x, int y, int z) { float u = noise(x, y, z, 99); return u < 0.1f ? -1.f : 20.f + 180.f * u; }
__host__ __device__ inline float coef_of(int x, int y, int z, int c) {
  return (noise(x, y, z, c) - 0.5f) * (c % 9 ? 0.3f : 2.f);
}
__global__ void setup_count(int* rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x, n = 0;
  for (int z = 0; z < RES; z++) n += solid(r / RES, r % RES, z);
  rows[r] = n;
}
__global__ void setup_fill(const int* rows, int* links, float* density, float* sh) {
  int r = blockIdx.x * blockDim.x + threadIdx.x, x = r / RES, y = r % RES;
  int at = rows[r];
  for (int z = 0; z < RES; z++) {
    bool s = solid(x, y, z);
    links[(size_t)r * RES + z] = s ? at : -1;
    if (!s) continue;
    density[at] = density_of(x, y, z);
    for (int c = 0; c < NCOEF; c++) sh[(size_t)at * NCOEF + c] = coef_of(x, y, z, c);
    at++;
  }
}
// level 0: from the links; level k: from level k - 1; a cell is set if anything in it is
__global__ void setup_level(const int* links, const unsigned char* below, unsigned char* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * n * n) return;
  int z = i % n, y = i / n % n, x = i / n / n, any = 0;
  for (int k = 0; k < 8; k++) {
    size_t j = ((size_t)(2 * x + (k >> 2)) * 2 * n + 2 * y + (k >> 1 & 1)) * 2 * n + 2 * z + (k & 1);
    any |= links ? links[j] >= 0 : below[j];
  }
  out[i] = any;
}
// an empty cell's link becomes -1 minus the number of levels whose cell around it is empty
__global__ void setup_skips(int* links, const unsigned char* levels) {
  int r = blockIdx.x * blockDim.x + threadIdx.x, x = r / RES, y = r % RES;
  for (int z = 0; z < RES; z++) {
    int& link = links[(size_t)r * RES + z];
    if (link >= 0) continue;
    int v = -1;
    const unsigned char* l = levels;
    for (int k = 1, n = RES / 2; n >= 1; k++, n /= 2) {
      if (l[((size_t)(x >> k) * n + (y >> k)) * n + (z >> k)]) break;
      v--;
      l += (size_t)n * n * n;
    }
    link = v;
  }
}
struct Scene { int* links; float *density, *sh; int cells; };
inline cudaError_t make_scene(Scene& s) {
  int *rows, total = 0;
  unsigned char* levels;
  std::vector<int> h(RES * RES);
  cudaMalloc(&rows, RES * RES * 4);
  cudaMalloc(&s.links, (size_t)RES * RES * RES * 4);
  cudaMalloc(&levels, (size_t)RES * RES * RES / 4);
  setup_count<<<RES * RES / 256, 256>>>(rows);
  cudaMemcpy(h.data(), rows, RES * RES * 4, cudaMemcpyDeviceToHost);
  for (int& v : h) { int n = v; v = total; total += n; }
  s.cells = total;
  cudaMemcpy(rows, h.data(), RES * RES * 4, cudaMemcpyHostToDevice);
  cudaMalloc(&s.density, (size_t)total * 4);
  cudaMalloc(&s.sh, (size_t)total * NCOEF * 4);
  setup_fill<<<RES * RES / 256, 256>>>(rows, s.links, s.density, s.sh);
  unsigned char *l = levels, *below = nullptr;
  for (int n = RES / 2; n >= 1; n /= 2) {
    setup_level<<<(n * n * n + 255) / 256, 256>>>(below ? nullptr : s.links, below, l, n);
    below = l;
    l += (size_t)n * n * n;
  }
  setup_skips<<<RES * RES / 256, 256>>>(s.links, levels);
  cudaDeviceSynchronize();
  cudaFree(rows);
  cudaFree(levels);
  return cudaGetLastError();
}
inline float uniform() { return rand() / (float)RAND_MAX; }
// a batch of random pixels of cameras around the scene (world coordinates: the grid is [-1, 1]^3)
inline void make_rays(int n, std::vector<float>& origins, std::vector<float>& dirs) {
  origins.resize(3 * n);
  dirs.resize(3 * n);
  for (int i = 0; i < n; i++) {
    float c = 0.1f + 0.8f * uniform(), a = 6.2831853f * uniform(), s = sqrtf(1 - c * c);
    float f[3] = {s * cosf(a), s * sinf(a), c}, u[3] = {-sinf(a), cosf(a), 0}, v[3] = {-c * cosf(a), -c * sinf(a), s};
    float p = 0.72f * (uniform() - 0.5f), q = 0.72f * (uniform() - 0.5f), w = 0;
    float* d = &dirs[3 * i];
    for (int k = 0; k < 3; k++) {
      origins[3 * i + k] = 2.69f * f[k];
      d[k] = -f[k] + p * u[k] + q * v[k];
      w += d[k] * d[k];
    }
    for (int k = 0; k < 3; k++) d[k] /= sqrtf(w);
  }
}
inline void basis9(const float* d, float* b) { // real spherical harmonics to degree 2
  float x = d[0], y = d[1], z = d[2];
  b[0] = 0.28209479f;
  b[1] = -0.48860251f * y; b[2] = 0.48860251f * z; b[3] = -0.48860251f * x;
  b[4] = 1.09254843f * x * y; b[5] = -1.09254843f * y * z; b[6] = 0.31539157f * (2 * z * z - x * x - y * y);
  b[7] = -1.09254843f * x * z; b[8] = 0.54627422f * (x * x - y * y);
}
