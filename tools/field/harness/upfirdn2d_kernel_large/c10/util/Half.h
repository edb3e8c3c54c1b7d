// Stand-in (ours): the half type of the toolkit under the name that the library uses.
#pragma once
#include <cuda_fp16.h>
namespace c10 { using Half = __half; }
namespace at { using Half = __half; }
