// A half type whose arithmetic goes through float and rounds after each operation, as the framework's does (our own code).
#pragma once
#include <cuda_fp16.h>
struct alignas(2) Half {
    __half v;
    Half() = default;
    __host__ __device__ Half(float f) : v(__float2half_rn(f)) {}
    __host__ __device__ operator float() const { return __half2float(v); }
};
static __host__ __device__ __forceinline__ Half operator*(Half a, Half b) { return Half((float)a * (float)b); }
static __host__ __device__ __forceinline__ Half operator+(Half a, Half b) { return Half((float)a + (float)b); }
static __host__ __device__ __forceinline__ Half operator-(Half a, Half b) { return Half((float)a - (float)b); }
static __device__ __forceinline__ Half __ldg(const Half *p) { Half h; h.v = __ldg(&p->v); return h; }
