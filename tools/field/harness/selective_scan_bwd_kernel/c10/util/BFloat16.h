// Stand-in (ours).
#pragma once
#include <cuda_bf16.h>
namespace c10 { using BFloat16 = __nv_bfloat16; }
namespace at { using BFloat16 = __nv_bfloat16; }
