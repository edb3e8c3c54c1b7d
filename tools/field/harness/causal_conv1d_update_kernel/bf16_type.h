// Stand-in for the framework's 16-bit float: two bytes, converting from and to float by the toolkit's functions.
#pragma once
#include <cuda_bf16.h>
namespace at {
struct alignas(2) BFloat16 {
    unsigned short bits;
    BFloat16() = default;
    __host__ __device__ BFloat16(float v): bits(__bfloat16_as_ushort(__float2bfloat16(v))) {}
    __host__ __device__ operator float() const { return __bfloat162float(__ushort_as_bfloat16(bits)); }
};
}  // namespace at
#define CHECK(x)                                                                              \
    do {                                                                                      \
        cudaError_t e_ = (x);                                                                 \
        if (e_ != cudaSuccess) {                                                              \
            printf("FAIL %s line %d: %s\n", #x, __LINE__, cudaGetErrorString(e_));            \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)
