// Our stand-ins for the framework's macros.
#pragma once
#define CUDA_KERNEL_LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
static const int CAFFE_CUDA_NUM_THREADS = 512;
static inline int CAFFE_GET_BLOCKS(int n) { return (n + CAFFE_CUDA_NUM_THREADS - 1) / CAFFE_CUDA_NUM_THREADS; }
