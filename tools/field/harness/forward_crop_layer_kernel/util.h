// Small helpers of the harness (ours).
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <cmath>
#include <vector>
#include <algorithm>
#include <cuda_runtime.h>
#include <cuda_fp16.h>

#define CK(e) do { cudaError_t r_ = (e); if (r_ != cudaSuccess) { printf("FAIL %s line %d: %s\n", #e, __LINE__, cudaGetErrorString(r_)); exit(1); } } while (0)

__host__ __device__ inline float hash01(uint64_t i, uint32_t seed)
{
    uint64_t z = (i + 1) * 0x9E3779B97F4A7C15ull + (uint64_t)seed * 0xD1B54A32D192ED03ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    return (float)(uint32_t)(z >> 40) * (1.0f / 16777216.0f);
}

template <class T> __global__ void init_uniform(T* p, size_t n, uint32_t seed, float lo, float hi)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = (T)(lo + (hi - lo) * hash01(i, seed));
}

template <class T> T* device_uniform(size_t n, uint32_t seed, float lo, float hi)
{
    T* p;
    CK(cudaMalloc(&p, n * sizeof(T)));
    init_uniform<T><<<2048, 256>>>(p, n, seed, lo, hi);
    CK(cudaGetLastError());
    return p;
}

template <class T> T* device_zero(size_t n)
{
    T* p;
    CK(cudaMalloc(&p, n * sizeof(T)));
    CK(cudaMemset(p, 0, n * sizeof(T)));
    return p;
}

template <class T> __global__ void sum_magnitudes(const T* p, size_t n, double* out)
{
    __shared__ double part[256];
    double s = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        s += fabs((double)(float)p[i]);
    part[threadIdx.x] = s;
    __syncthreads();
    for (int k = 128; k; k >>= 1) { if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k]; __syncthreads(); }
    if (!threadIdx.x) atomicAdd(out, part[0]);
}

template <class T> double checksum(const T* p, size_t n)
{
    double* d = device_zero<double>(1);
    sum_magnitudes<T><<<1024, 256>>>(p, n, d);
    double h;
    CK(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
    CK(cudaFree(d));
    return h;
}

template <class T> std::vector<T> to_host(const T* p, size_t n)
{
    std::vector<T> v(n);
    CK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}
