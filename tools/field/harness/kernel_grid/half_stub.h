// A small stand-in for at::Half: storage in 16 bits, arithmetic in float, rounded at each store.
#pragma once
#include <cuda_fp16.h>
namespace at {
struct Half {
    __half x;
    __host__ __device__ Half() {}
    __host__ __device__ Half(float v) : x(__float2half(v)) {}
    __host__ __device__ operator float() const { return __half2float(x); }
};
__host__ __device__ inline Half operator+(Half a, Half b) { return Half(float(a) + float(b)); }
__host__ __device__ inline Half operator-(Half a, Half b) { return Half(float(a) - float(b)); }
__host__ __device__ inline Half operator*(Half a, Half b) { return Half(float(a) * float(b)); }
__host__ __device__ inline float operator*(float a, Half b) { return a * float(b); }
__host__ __device__ inline float operator*(Half a, float b) { return float(a) * b; }
__host__ __device__ inline Half& operator+=(Half& a, const Half& b) { a = a + b; return a; }
}
