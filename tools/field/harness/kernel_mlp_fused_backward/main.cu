// Runs the fused backward pass of a small network alone: the colour network of a NeRF, 64 wide,
// 3 layers, ReLU, 16 (padded) outputs, 262144 samples, half.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include "utils.h"
#include "kernel.inc"
#ifndef SHMEM_TILES
#define SHMEM_TILES 1
#endif

#define CHECK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

static uint32_t seed = 88172645u;
static uint32_t bits() { seed ^= seed << 13; seed ^= seed >> 17; seed ^= seed << 5; return seed; }
static float rnd() { return (bits() >> 8) * (2.f / 16777216.f) - 1.f; }

int main() {
  const uint32_t WIDTH = 64, LAYERS = 3, IN = 32, OUT = 16, B = 262144, HID = LAYERS - 1;
  std::vector<float> to_f(65536);
  for (int i = 0; i < 65536; i++) { __half_raw r; r.x = (unsigned short)i; to_f[i] = __half2float(__half(r)); }
  auto val = [&](const __half& h) { return to_f[*(const unsigned short*)&h]; };
  const size_t LB = (size_t)WIDTH * B;
  std::vector<__half> w(IN * WIDTH + HID * WIDTH * WIDTH + OUT * WIDTH), g((size_t)OUT * B), fwd(LAYERS * LB), back(LAYERS * LB);
  std::vector<__half> tab(8192);
  for (auto& v : tab) v = __float2half(fmaxf(0.f, rnd()));      // activations after ReLU: half of them 0
  for (auto& v : fwd) v = tab[bits() >> 19];
  for (auto& v : w) v = __float2half(0.2f * rnd());
  for (auto& v : tab) v = __float2half(rnd());
  for (auto& v : g) v = tab[bits() >> 19];
  __half *d_w, *d_g, *d_f, *d_b;
  CHECK(cudaMalloc(&d_w, w.size() * 2)); CHECK(cudaMalloc(&d_g, g.size() * 2));
  CHECK(cudaMalloc(&d_f, fwd.size() * 2)); CHECK(cudaMalloc(&d_b, back.size() * 2));
  CHECK(cudaMemcpy(d_w, w.data(), w.size() * 2, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_g, g.data(), g.size() * 2, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_f, fwd.data(), fwd.size() * 2, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(d_b, 0, back.size() * 2));
  constexpr int N_ITERS = 8;
  const size_t shmem = (size_t)SHMEM_TILES * 16 * N_ITERS * (WIDTH + 8) * sizeof(__half);
  auto* kernel = kernel_mlp_fused_backward<WIDTH, 1, N_ITERS, nvcuda::wmma::row_major>;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shmem));
  const dim3 block(32, WIDTH / 16, 1), grid((B + 16 * N_ITERS - 1) / (16 * N_ITERS));
  for (int r = 0; r < 6; r++) {
    kernel<<<grid, block, shmem>>>(Activation::ReLU, d_g, d_w + IN * WIDTH, d_b, d_f, nullptr, d_w, B, OUT, HID);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaMemcpy(back.data(), d_b, back.size() * 2, cudaMemcpyDeviceToHost));
  int bad = 0;
  for (int s = 0; s < 256; s++) {
    const size_t row = ((size_t)s * 1031 + 17) % B;
    float cur[64], nxt[64];
    for (uint32_t k = 0; k < LAYERS; k++) {  // k = 0: through the last layer
      const __half* wl = &w[IN * WIDTH + (k == 0 ? HID : HID - k) * WIDTH * WIDTH];
      const __half* f = &fwd[(HID - k) * LB + row * WIDTH];
      for (uint32_t c = 0; c < WIDTH; c++) {
        float sum = 0;
        for (uint32_t o = 0; o < (k ? WIDTH : OUT); o++) sum += (k ? cur[o] : val(g[row * OUT + o])) * val(wl[o * WIDTH + c]);
        nxt[c] = val(f[c]) > 0 ? sum : 0;
        if (!(fabsf(nxt[c] - val(back[k * LB + row * WIDTH + c])) < 5e-3f)) bad++;
      }
      for (uint32_t c = 0; c < WIDTH; c++) cur[c] = nxt[c];
    }
  }
  double sum[3] = {0, 0, 0};
  for (uint32_t k = 0; k < LAYERS; k++) for (size_t i = 0; i < LB; i++) sum[k] += fabs((double)val(back[k * LB + i]));
  if (bad) printf("FAIL %d differ\n", bad); else printf("PASS\n");
  printf("checksum %.4g %.4g %.4g\n", sum[0], sum[1], sum[2]);
  return bad != 0;
}
