// Forward rendering of a training batch of 5000 random rays through a sparse 512^3 grid, 9 basis functions x 3 colours.
#include <cuda_runtime.h>
#include <stdio.h>
#include <torch/extension.h>
#include "cuda_util.cuh"
#include "data_spec_packed.cuh"
#include "render_util.cuh"
#include "kernel.inc"
#include "scene.h"
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

// One ray on the CPU, walking every step of half a cell.
static void reference(const float* o, const float* d, float* rgb) {
  double pos[3], t0 = 0, t1 = 2e3, alpha = 0;
  float b[9];
  basis9(d, b);
  rgb[0] = rgb[1] = rgb[2] = 0;
  for (int k = 0; k < 3; k++) {
    double a = (-0.5 - (o[k] * 256.0 + 255.5)) / d[k], e = (RES - 0.5 - (o[k] * 256.0 + 255.5)) / d[k];
    t0 = fmax(t0, fmin(a, e)); t1 = fmin(t1, fmax(a, e));
  }
  for (double t = t0; t <= t1 && t0 <= t1 && alpha < 1; t += 0.5) {
    int l[3];
    for (int k = 0; k < 3; k++) {
      pos[k] = fmin(fmax(o[k] * 256.0 + 255.5 + t * d[k], 0.0), RES - 1.0);
      l[k] = (int)fmin((int)pos[k], RES - 2);
      pos[k] -= l[k];
    }
    double s = 0, col[3] = {0, 0, 0};
    for (int k = 0; k < 8; k++) {
      int x = l[0] + (k >> 2), y = l[1] + (k >> 1 & 1), z = l[2] + (k & 1);
      double w = (k & 4 ? pos[0] : 1 - pos[0]) * (k & 2 ? pos[1] : 1 - pos[1]) * (k & 1 ? pos[2] : 1 - pos[2]);
      if (!solid(x, y, z)) continue;
      s += w * density_of(x, y, z);
      for (int c = 0; c < NCOEF; c++) col[c / 9] += w * coef_of(x, y, z, c) * b[c % 9];
    }
    if (s <= 1e-8) continue;
    double next = fmin(1.0, alpha + 1 - exp(-s * 0.5 / 256));
    for (int k = 0; k < 3; k++) rgb[k] += (next - alpha) * fmax(0.0, col[k] + 0.5);
    alpha = next;
  }
  for (int k = 0; k < 3; k++) rgb[k] += 1 - alpha;
}

int main() {
  srand(5);
  const int Q = 5000;
  std::vector<float> ho, hd, out(3 * Q);
  make_rays(Q, ho, hd);
  Scene s;
  CK(make_scene(s));
  float *o, *d, *r, offset[3] = {255.5f, 255.5f, 255.5f}, scaling[3] = {256, 256, 256};
  CK(cudaMalloc(&o, Q * 12)); CK(cudaMalloc(&d, Q * 12)); CK(cudaMalloc(&r, Q * 12));
  CK(cudaMemcpy(o, ho.data(), Q * 12, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(d, hd.data(), Q * 12, cudaMemcpyHostToDevice));
  SparseGridSpec grid;
  grid.density_data = Tensor(s.density, {s.cells, 1});
  grid.sh_data = Tensor(s.sh, {s.cells, NCOEF});
  grid.links = Tensor(s.links, {RES, RES, RES});
  grid._offset = Tensor(offset, {3});
  grid._scaling = Tensor(scaling, {3});
  grid.basis_dim = 9;
  grid.basis_type = BASIS_TYPE_SH;
  RaysSpec rays;
  rays.origins = Tensor(o, {Q, 3});
  rays.dirs = Tensor(d, {Q, 3});
  Tensor result(r, {Q, 3});
  RenderOptions opt = {};
  opt.background_brightness = 1.f; opt.step_size = 0.5f; opt.sigma_thresh = 1e-8f; opt.stop_thresh = 1e-7f;
  for (int it = 0; it < 6; it++) {
    device::render_ray_kernel<<<(Q * 32 - 1) / 128 + 1, 128>>>(grid, rays, opt, result.packed_accessor32<float, 2, torch::RestrictPtrTraits>());
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  CK(cudaMemcpy(out.data(), r, Q * 12, cudaMemcpyDeviceToHost));
  int bad = 0, hit = 0;
  double sum = 0;
  for (int i = 0; i < 400; i++) {
    float rgb[3];
    reference(&ho[3 * i], &hd[3 * i], rgb);
    bool off = false;
    for (int k = 0; k < 3; k++) off |= !(fabsf(rgb[k] - out[3 * i + k]) < 5e-3f);
    bad += off;
    hit += rgb[0] != 1.f;
  }
  for (float v : out) sum += fabs(v);
  if (bad > 8 || hit < 20) printf("FAIL %d of 400 rays differ (%d hit)\n", bad, hit); else printf("PASS\n");
  printf("checksum %.4g (%d cells, %d of 400 rays hit)\n", sum, s.cells, hit);
  return bad > 8;
}
