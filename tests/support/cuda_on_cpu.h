// A CUDA launch on the processor, for tests of small kernels: a thread for each thread of a block, one block after the
// other. What the kernels under tools/agent_trial/tasks use, and no more.
#pragma once
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>
using std::tanh;
using std::fmaxf;
#define __global__ static
#define __device__ static
#define __forceinline__ inline
#define __restrict__ __restrict
#define __shared__ static
#define __launch_bounds__(...)
typedef void* cudaStream_t;
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(16) float4 { float x, y, z, w; };
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline float fast_exp(float x) { return std::exp(x); }
#define __expf fast_exp  // a name that libm has too

static dim3 gridDim, blockDim;
static thread_local dim3 threadIdx, blockIdx;
static thread_local unsigned thread_number;
static std::barrier<>* block_barrier;
static std::vector<float> lanes;

static inline void __syncthreads() { block_barrier->arrive_and_wait(); }
static inline float __shfl_xor_sync(unsigned, float v, int other) {  // all warps of a block come here together
  lanes[thread_number] = v;
  __syncthreads();
  float found = lanes[thread_number ^ (unsigned)other];
  __syncthreads();
  return found;
}
static inline int atomicAdd(int* place, int value) { return __atomic_fetch_add(place, value, __ATOMIC_RELAXED); }
static inline void cudaMemsetAsync(void* place, int value, size_t bytes, cudaStream_t) { std::memset(place, value, bytes); }

template <class Kernel> static void launched(dim3 grid, dim3 block, Kernel kernel) {
  gridDim = grid, blockDim = block;
  const unsigned count = block.x * block.y * block.z;
  std::barrier<> all(count);
  block_barrier = &all;
  lanes.assign(count, 0);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; t++)
    threads.emplace_back([&, t] {
      thread_number = t;
      threadIdx = dim3(t % block.x, t / block.x % block.y, t / block.x / block.y);
      for (unsigned b = 0; b < grid.x * grid.y * grid.z; b++) {
        blockIdx = dim3(b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y);
        kernel();
        all.arrive_and_wait();
      }
    });
  for (auto& thread : threads) thread.join();
}
