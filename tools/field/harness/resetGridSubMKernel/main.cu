// Resets the index grid of a submanifold sparse convolution: a batch of 4
// driving scenes (0.1 m voxels, 41 x 1504 x 1504), 150000 voxels each, shuffled.
#include "util.h"
#include <utils/spconv/tensorview/tensorview.h>
#include <utils/spconv/tensorview/helper_kernel.cuh>
#include <algorithm>
#include <cmath>
#include <vector>
#include "kernel.inc"

const int kBatch = 4, kZ = 41, kY = 1504, kX = 1504, kVoxels = 150000, kExtra = 1000;

__global__ void mark_cells(const int* cells, int n, int* grid) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) grid[cells[i]] = i;
}

__global__ void count_marked(const int* grid, size_t n, unsigned long long* out) {
  unsigned long long c = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += (size_t)gridDim.x * blockDim.x)
    if (grid[i] != -1) ++c;
  if (c) atomicAdd(out, c);
}

int main() {
  const size_t volume = (size_t)kZ * kY * kX, total = volume * kBatch;
  Rng rng(11);
  std::vector<int> indices, cells, extra;
  for (int b = 0; b < kBatch; ++b) {
    std::vector<bool> used(volume, false);
    // walls, cars and trees: boxes at random places
    struct Box { float x, y, w, h, top; };
    std::vector<Box> boxes;
    for (int i = 0; i < 150; ++i)
      boxes.push_back({rng.uniform(60, 1440), rng.uniform(60, 1440), rng.uniform(5, 60),
                       rng.uniform(5, 60), rng.uniform(8, 38)});
    int have = 0;
    while (have < kVoxels + kExtra / kBatch) {
      float x, y, z;
      if (rng.uniform() < 0.5f) {  // ground, denser near the sensor
        float r = 740.0f * rng.uniform(), a = 6.2831853f * rng.uniform();
        x = 752 + r * cosf(a);
        y = 752 + r * sinf(a);
        z = 5 + 1.0f * rng.normalish() + 0.004f * r;
      } else {  // sides of the boxes
        const Box& q = boxes[rng.below((int)boxes.size())];
        float u = rng.uniform();
        if (rng.next() & 1) { x = q.x + u * q.w; y = q.y; }
        else { x = q.x; y = q.y + u * q.h; }
        x += 0.5f * rng.normalish();
        y += 0.5f * rng.normalish();
        z = rng.uniform(4, q.top);
      }
      int xi = (int)floorf(x), yi = (int)floorf(y), zi = (int)floorf(z);
      if (xi < 0 || yi < 0 || zi < 0 || xi >= kX || yi >= kY || zi >= kZ) continue;
      size_t cell = ((size_t)zi * kY + yi) * kX + xi;
      if (used[cell]) continue;
      used[cell] = true;
      int whole = (int)(cell + volume * b);
      if (have < kVoxels) {
        indices.insert(indices.end(), {b, zi, yi, xi});
        cells.push_back(whole);
      } else {
        extra.push_back(whole);  // cells of somebody else: must stay
      }
      ++have;
    }
  }
  const int n = kBatch * kVoxels, nextra = (int)extra.size();

  int *d_indices, *d_cells, *d_extra, *d_grid;
  unsigned long long* d_count;
  CHECK(cudaMalloc(&d_indices, sizeof(int) * 4 * n));
  CHECK(cudaMalloc(&d_cells, sizeof(int) * n));
  CHECK(cudaMalloc(&d_extra, sizeof(int) * nextra));
  CHECK(cudaMalloc(&d_grid, sizeof(int) * total));
  CHECK(cudaMalloc(&d_count, sizeof(*d_count)));
  CHECK(cudaMemcpy(d_indices, indices.data(), sizeof(int) * 4 * n, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_cells, cells.data(), sizeof(int) * n, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d_extra, extra.data(), sizeof(int) * nextra, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(d_grid, 0xff, sizeof(int) * total));
  CHECK(cudaMemset(d_count, 0, sizeof(*d_count)));
  mark_cells<<<(nextra + 255) / 256, 256>>>(d_extra, nextra, d_grid);

  tv::TensorView<int> grid(d_grid, kBatch, (int)volume);
  tv::SimpleVector<int, 3> shape{kZ, kY, kX};
  for (int it = 0; it < 6; ++it) {
    mark_cells<<<(n + 255) / 256, 256>>>(d_cells, n, d_grid);
    resetGridSubMKernel<int, int, 3><<<(n + 1023) / 1024, 1024>>>(d_indices, grid, shape, n);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());

  count_marked<<<1056, 256>>>(d_grid, total, d_count);
  unsigned long long count = 0;
  CHECK(cudaMemcpy(&count, d_count, sizeof(count), cudaMemcpyDeviceToHost));
  std::printf("%s marked cells left %llu, expected %d\n",
              count == (unsigned long long)nextra ? "PASS" : "FAIL", count, nextra);
  std::printf("checksum %.4g\n", (double)count);
  return 0;
}
