// Backward pass of a training batch of 5000 random rays, nearest-cell rendering of a sparse 512^3 grid, 9 x 3 coefficients.
#include <cuda_runtime.h>
#include <stdio.h>
#include <algorithm>
#include <torch/extension.h>
#include "cuda_util.cuh"
#include "render_util.cuh"
#include "data_spec_packed.cuh"
#include "kernel.inc"
#include "scene.h"
#ifndef THREADS
#define THREADS 512
#endif
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s line %d\n", cudaGetErrorString(e_), __LINE__); return 1; } } while (0)

struct Sample { float length, sigma, color[3]; };
// The cells of one ray on the CPU.
static void walk(const int* links, const float* o, const float* d, std::vector<Sample>& list) {
  float org[3], inv[3], pos[3], b[9], t = 0, t1 = 1e9f;
  int l[3];
  basis9(d, b);
  list.clear();
  for (int k = 0; k < 3; k++) {
    org[k] = o[k] * 256.f + 256.f;
    inv[k] = d[k] == 0 ? 1e9f : 1.f / d[k];
    float a = -org[k] * inv[k], e = (RES - 1.f - org[k]) * inv[k];
    t = std::max(t, std::min(a, e)); t1 = std::min(t1, std::max(a, e));
  }
  while (t < t1) {
    for (int k = 0; k < 3; k++) {
      pos[k] = std::min(std::max(org[k] + t * d[k], 0.f), RES - 1.f);
      l[k] = (int)pos[k];
    }
    int link = links[((size_t)l[0] * RES + l[1]) * RES + l[2]], shift = link < 0 ? -link - 1 : 0;
    float out = 1e9f; // the way to the wall of the cell or of the empty block
    for (int k = 0; k < 3; k++) {
      float low = (float)((l[k] >> shift) << shift);
      out = std::min(out, std::max((low - pos[k]) * inv[k], (low + (1 << shift) - pos[k]) * inv[k]));
    }
    t += std::max(out, 0.f) + 1e-2f;
    float sigma = link < 0 ? 0.f : density_of(l[0], l[1], l[2]);
    if (sigma <= 1e-8f) continue;
    Sample s = {(out + 1e-2f) / 256.f, sigma, {0.5f, 0.5f, 0.5f}};
    for (int c = 0; c < NCOEF; c++) s.color[c / 9] += coef_of(l[0], l[1], l[2], c) * b[c % 9];
    list.push_back(s);
  }
}

int main() {
  srand(5);
  const int Q = 5000;
  std::vector<float> ho, hd, truth(3 * Q), color(3 * Q, 0.f);
  make_rays(Q, ho, hd);
  for (auto& v : truth) v = uniform();
  Scene s;
  CK(make_scene(s));
  std::vector<int> links((size_t)RES * RES * RES);
  CK(cudaMemcpy(links.data(), s.links, links.size() * 4, cudaMemcpyDeviceToHost));
  // forward and backward on the CPU: sums of the gradients over all cells
  double want[NCOEF + 1] = {}, size[NCOEF + 1] = {};
  std::vector<Sample> list;
  for (int i = 0; i < Q; i++) {
    walk(links.data(), &ho[3 * i], &hd[3 * i], list);
    double depth = 0, left = 0, g[3];
    float b[9];
    basis9(&hd[3 * i], b);
    for (auto& c : list) {
      for (int k = 0; k < 3; k++) color[3 * i + k] += exp(-depth) * (1 - exp(-c.length * c.sigma)) * std::max(c.color[k], 0.f);
      depth += c.length * c.sigma;
    }
    for (int k = 0; k < 3; k++) {
      color[3 * i + k] += exp(-depth);
      g[k] = (color[3 * i + k] - truth[3 * i + k]) * 2 / (3.0 * Q);
      left += color[3 * i + k] * g[k];
    }
    depth = 0;
    for (auto& c : list) {
      double w = exp(-depth) * (1 - exp(-c.length * c.sigma)), total = 0;
      for (int k = 0; k < 3; k++) {
        if (c.color[k] <= 0) continue;
        total += c.color[k] * g[k];
        for (int j = 0; j < 9; j++) { want[9 * k + j] += w * g[k] * b[j]; size[9 * k + j] += fabs(w * g[k] * b[j]); }
      }
      depth += c.length * c.sigma;
      left -= w * total;
      want[NCOEF] += c.length * (total * exp(-depth) - left);
      size[NCOEF] += fabs(c.length * total * exp(-depth)) + fabs(c.length * left);
      if (exp(-depth) <= 1e-7) break;
    }
  }
  float *o, *d, *gt, *cc, *gd, *gs, offset[3] = {255.5f, 255.5f, 255.5f}, scaling[3] = {256, 256, 256};
  bool* mask;
  const size_t ns = (size_t)s.cells * NCOEF;
  CK(cudaMalloc(&o, Q * 12)); CK(cudaMalloc(&d, Q * 12)); CK(cudaMalloc(&gt, Q * 12)); CK(cudaMalloc(&cc, Q * 12));
  CK(cudaMalloc(&gd, (size_t)s.cells * 4)); CK(cudaMalloc(&gs, ns * 4)); CK(cudaMalloc(&mask, s.cells));
  CK(cudaMemcpy(o, ho.data(), Q * 12, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(d, hd.data(), Q * 12, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(gt, truth.data(), Q * 12, cudaMemcpyHostToDevice));
  CK(cudaMemcpy(cc, color.data(), Q * 12, cudaMemcpyHostToDevice));
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
  GridOutputGrads grads;
  grads.grad_density_out = Tensor(gd, {s.cells, 1});
  grads.grad_sh_out = Tensor(gs, {s.cells, NCOEF});
  grads.mask_out = Tensor(mask, {s.cells});
  RenderOptions opt = {};
  opt.background_brightness = 1.f; opt.step_size = 0.5f; opt.sigma_thresh = 1e-8f; opt.stop_thresh = 1e-7f;
  for (int it = 0; it < 6; it++) {
    CK(cudaMemset(gd, 0, (size_t)s.cells * 4));
    CK(cudaMemset(gs, 0, ns * 4));
    CK(cudaMemset(mask, 0, s.cells));
    device::render_ray_svox1_backward_kernel<<<(Q - 1) / THREADS + 1, THREADS>>>(grid, gt, cc, rays, opt, true, grads);
    CK(cudaGetLastError());
    CK(cudaDeviceSynchronize());
  }
  std::vector<float> hs(ns), hg(s.cells);
  CK(cudaMemcpy(hs.data(), gs, ns * 4, cudaMemcpyDeviceToHost));
  CK(cudaMemcpy(hg.data(), gd, (size_t)s.cells * 4, cudaMemcpyDeviceToHost));
  double got[NCOEF + 1] = {}, as = 0, ag = 0;
  for (size_t i = 0; i < (size_t)s.cells; i++) {
    for (int c = 0; c < NCOEF; c++) { got[c] += hs[i * NCOEF + c]; as += fabs(hs[i * NCOEF + c]); }
    got[NCOEF] += hg[i];
    ag += fabs(hg[i]);
  }
  int bad = 0;
  for (int c = 0; c <= NCOEF; c++) bad += !(fabs(got[c] - want[c]) < 0.02 * size[c]);
  if (bad || size[0] == 0) printf("FAIL %d of 28 sums differ\n", bad); else printf("PASS\n");
  printf("checksum %.3g %.3g (%d cells)\n", as, ag, s.cells);
  return bad != 0;
}
