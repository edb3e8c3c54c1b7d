// A minimal stand-in for the few Kaldi base types and macros that the kernels' headers name.
#pragma once
#include <cassert>
#include <climits>
#include <cfloat>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>
#include <cuda_runtime.h>
#define KALDI_ASSERT(c) do { if (!(c)) { printf("assert %s\n", #c); exit(1); } } while (0)
#define CU_SAFE_CALL(x) CK(x)
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s\n", cudaGetErrorString(e_)); exit(1); } } while (0)
namespace kaldi { typedef float BaseFloat; typedef int32_t int32; typedef uint32_t uint32; typedef int64_t int64; }
