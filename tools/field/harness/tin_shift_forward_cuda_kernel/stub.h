// Our stand-in for the library's loop macro and launch sizes.
#pragma once
#define CUDA_1D_KERNEL_LOOP(i, n) \
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
constexpr int kThreads = 512;
inline int blocks_for(int n) {
  int b = (n + kThreads - 1) / kThreads;
  return b < 4096 ? b : 4096;
}
