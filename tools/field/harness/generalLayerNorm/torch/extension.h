// Stand-in for the framework's header: only what the kernel's headers name.
#pragma once
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace at {
using Half = __half;
using BFloat16 = __nv_bfloat16;
}  // namespace at
