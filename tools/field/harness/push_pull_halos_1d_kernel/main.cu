// Exchange of one-row halos (336 x 256 half, explicit NHWC) in a ring of one: top and bottom buffers of the same GPU
// are each other's peers. The launch uses one multiprocessor's worth of blocks unless NUM_SM says otherwise.
#include "util.h"
#include <cuda_fp16.h>
typedef unsigned int uint;
#include "kernel.inc"
#ifndef NUM_SM
#define NUM_SM 1
#endif
int main() {
  const int W = 336, C = 256;
  int n = W * C * 2 / (int)sizeof(int2), one = 1;  // int2 flits a side
  const size_t peer_bytes = ((size_t)4 * W * C * 2 + 4095) / 4096 * 4096;
  std::mt19937 gen(6);
  std::vector<int2> top(n), btm(n);
  for (auto& v : top) v = {(int)gen(), (int)gen()};
  for (auto& v : btm) v = {(int)gen(), (int)gen()};
  int2 *tih = to_device(top), *bih = to_device(btm), *toh = device_zeros<int2>(n), *boh = device_zeros<int2>(n);
  int4 *tix = (int4*)device_zeros<char>(peer_bytes), *bix = (int4*)device_zeros<char>(peer_bytes);
  int4 *tox = bix, *box = tix;  // the top neighbour's bottom buffer, the bottom neighbour's top buffer
  auto kernel = push_pull_halos_1d_kernel<int2, true, false, false>;
  int dev, sms, per_sm;
  CK(cudaGetDevice(&dev));
  CK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev));
  CK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, 128, 0));
  int grid = (NUM_SM > 0 && NUM_SM < sms ? NUM_SM : sms) * per_sm / 2 * 2;
  if (grid / 2 * 128 > n) grid = 2 * ((n + 127) / 128);
  if ((size_t)(grid / 2) * 128 * 32 > peer_bytes) grid = 2 * (int)(peer_bytes / (128 * 32));
  bool top_first = false;
  void* args[] = {&toh, &one, &one, &one, &tih, &one, &one, &one, &tox, &tix, &boh, &one,
                  &one, &one, &bih, &one, &one, &one, &box, &bix, &one, &one, &n, &top_first};
  for (int it = 0; it < 6; it++) {
    CK(cudaMemset(toh, 0, n * sizeof(int2)));
    CK(cudaMemset(boh, 0, n * sizeof(int2)));
    CK(cudaLaunchCooperativeKernel((void*)kernel, dim3(grid), dim3(128), args, 0, 0));
  }
  finish();
  auto a = to_host(toh, n), b = to_host(boh, n);
  int bad = 0;
  double sum = 0;
  for (int i = 0; i < n; i++) {
    if (a[i].x != btm[i].x || a[i].y != btm[i].y || b[i].x != top[i].x || b[i].y != top[i].y) bad++;
    sum += std::abs((double)a[i].x) + std::abs((double)a[i].y) + std::abs((double)b[i].x) + std::abs((double)b[i].y);
  }
  printf(bad == 0 ? "PASS\n" : "FAIL %d flits\n", bad);
  printf("checksum %.4g\n", sum);
}
