// Group norm with SiLU of a diffusion model's layer: 16 x 64 x 64 x 640 half, NHWC, 16 groups. The template arguments
// are those that the library's own chooser gives for 132 multiprocessors.
#include "util.h"
#include <cuda_fp16.h>
#include <string>
#include <tuple>
#include "kernel.inc"
#include "params.inc"
}  // namespace group_norm_v2
using namespace group_norm_v2;
int main() {
  constexpr int N = 16, HW = 4096, C = 640, G = 16, CPG = C / G;
  constexpr auto p = compute_gn_params<half, false, false, HW, G, CPG, 16, 900, 132, 900, 0>();
  constexpr int BX = std::get<0>(p), CB = std::get<1>(p), RB = std::get<2>(p), VE = std::get<3>(p);
  constexpr bool TWICE = std::get<4>(p), HWC = std::get<6>(p);
  constexpr int BPS = std::get<5>(p);
  constexpr int CC = lcm(CPG, CB), VCS = (CC / CB) * (HW / RB), NVC = 132 * BPS / VCS;
  constexpr bool PERS = !HWC && VCS >= 2;
  static_assert(PERS, "expected the cooperative launch");
  printf("block %d rows %d vec %d twice %d blocks/SM %d cluster %d clusters %d\n", BX, RB, VE, (int)TWICE, BPS, VCS, NVC);
  std::mt19937 gen(7);
  std::normal_distribution<float> g(0.f, 1.f);
  std::vector<float> table(65536 + 4096);
  for (auto& v : table) v = g(gen);
  std::vector<half> x((size_t)N * HW * C), w(C), b(C);
  for (size_t r = 0; r < (size_t)N * HW; r++) {
    unsigned o = gen() % 65536;
    for (int c = 0; c < C; c++) x[r * C + c] = __float2half(table[o + c] + 0.05f * (c / CPG));
  }
  for (auto& v : w) v = __float2half(1.f + 0.1f * g(gen));
  for (auto& v : b) v = __float2half(0.1f * g(gen));
  half *dx = to_device(x), *dw = to_device(w), *db = to_device(b), *dout = device_zeros<half>(x.size());
  float* red = device_zeros<float>((size_t)2 * NVC * VCS * (CB / CPG + 2) * 2);
  unsigned* bar = device_zeros<unsigned>(NVC);
  auto kernel = &gn_cuda_kernel<half, BX, BPS, G, CPG, HW, true, RB, CB, CC, VE, PERS, NVC, TWICE, HWC>;
#ifdef DYN_SMEM
  const size_t dyn = DYN_SMEM;
  CK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)dyn));
#else
  const size_t dyn = 0;
#endif
  for (int it = 0; it < 6; it++) {
    cudaLaunchConfig_t cfg = {};
    cfg.gridDim = dim3(VCS, std::min(N * (C / CC), NVC), 1);
    cfg.blockDim = dim3(BX);
    cfg.dynamicSmemBytes = dyn;
    cudaLaunchAttribute at[1];
    at[0].id = cudaLaunchAttributeCooperative;
    at[0].val.cooperative = 1;
    cfg.attrs = at;
    cfg.numAttrs = 1;
    CK(cudaLaunchKernelEx(&cfg, kernel, dout, (half const*)dx, (half const*)dw, (half const*)db, 1e-5f, (int64_t)N,
                          (float*)nullptr, red, bar));
  }
  finish();
  auto out = to_host(dout, x.size());
  int bad = 0;
  for (int n = 0; n < N; n += 5)
    for (int gr = 0; gr < G; gr += 7) {
      double s = 0, q = 0;
      for (int h = 0; h < HW; h++)
        for (int k = 0; k < CPG; k++) {
          double v = __half2float(x[((size_t)n * HW + h) * C + gr * CPG + k]);
          s += v, q += v * v;
        }
      double m = s / (HW * CPG), rs = 1 / std::sqrt(q / (HW * CPG) - m * m + 1e-5);
      for (int h = 0; h < HW; h += 61)
        for (int c = gr * CPG; c < (gr + 1) * CPG; c++) {
          size_t i = ((size_t)n * HW + h) * C + c;
          double f = (__half2float(x[i]) - m) * rs * __half2float(w[c]) + __half2float(b[c]);
          f /= 1 + std::exp(-f);
          if (!(std::abs(__half2float(out[i]) - f) <= 4e-3 + 4e-3 * std::abs(f))) bad++;
        }
    }
  double sum = 0;
  for (auto& v : out) sum += std::abs(__half2float(v));
  printf(bad == 0 ? "PASS\n" : "FAIL %d values\n", bad);
  printf("checksum %.4g\n", sum);
}
