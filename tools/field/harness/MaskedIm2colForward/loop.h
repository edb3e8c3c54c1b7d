// Grid-stride loop over one dimension, as the kernel expects it.
#pragma once
#define CUDA_1D_KERNEL_LOOP(var, count)                             \
  for (int var = threadIdx.x + blockDim.x * blockIdx.x; var < (count); \
       var += gridDim.x * blockDim.x)
