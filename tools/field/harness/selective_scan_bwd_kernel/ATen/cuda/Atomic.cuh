// Stand-in (ours).
#pragma once
#include <c10/util/complex.h>
static __device__ inline void gpuAtomicAdd(float* p, float v) { atomicAdd(p, v); }
static __device__ inline void gpuAtomicAdd(c10::complex<float>* p, c10::complex<float> v) { atomicAdd(&p->real_, v.real_); atomicAdd(&p->imag_, v.imag_); }
