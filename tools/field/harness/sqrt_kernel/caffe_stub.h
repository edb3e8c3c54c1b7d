// What a Caffe kernel needs outside the framework: the grid-stride loop and the launch rule (512 threads, ceil(n / 512) blocks).
#pragma once
#include <algorithm>
#include <cfloat>
#define CUDA_KERNEL_LOOP(i, n) \
    for (int i = (int)(blockDim.x * blockIdx.x + threadIdx.x); i < (n); i += (int)(gridDim.x * blockDim.x))
static const int kThreads = 512;
static inline int blocks_for(int n) { return (n + kThreads - 1) / kThreads; }
