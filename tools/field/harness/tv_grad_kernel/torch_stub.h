// A minimal stand-in for the few torch types that the kernels' headers name.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <algorithm>
#include <cuda_runtime.h>
#define TORCH_CHECK(c, ...) do { if (!(c)) { printf("check failed: %s\n", #c); exit(1); } } while (0)
namespace torch {
template <class T> struct RestrictPtrTraits {};
template <class T> struct DefaultPtrTraits {};
template <class T, int N, class I> struct Slice {
    T* p; const I* st;
    __host__ __device__ Slice<T, N - 1, I> operator[](I i) const { return {p + st[0] * i, st + 1}; }
    __host__ __device__ T* data() const { return p; }
};
template <class T, class I> struct Slice<T, 1, I> {
    T* p; const I* st;
    __host__ __device__ T& operator[](I i) const { return p[st[0] * i]; }
    __host__ __device__ T* data() const { return p; }
};
template <class T, int N, class I> struct Packed {
    T* __restrict__ p; I sz[N], st[N];
    __host__ __device__ I size(int d) const { return sz[d]; }
    __host__ __device__ I stride(int d) const { return st[d]; }
    __host__ __device__ T* data() const { return p; }
    __host__ __device__ decltype(auto) operator[](I i) const { return Slice<T, N, I>{p, st}[i]; }
};
template <class T, int N, template <class> class P = DefaultPtrTraits> using PackedTensorAccessor32 = Packed<T, N, int32_t>;
template <class T, int N, template <class> class P = DefaultPtrTraits> using PackedTensorAccessor64 = Packed<T, N, int64_t>;
struct Tensor {
    void* p = nullptr; int nd = 0; int64_t s[3] = {0, 0, 0};
    Tensor() = default;
    Tensor(void* p_, int64_t a, int64_t b = -1, int64_t c = -1) : p(p_), nd(c >= 0 ? 3 : b >= 0 ? 2 : 1), s{a, b, c} {}
    bool defined() const { return p != nullptr; }
    bool is_cuda() const { return true; }
    bool is_contiguous() const { return true; }
    bool is_floating_point() const { return true; }
    int ndimension() const { return nd; }
    int64_t size(int d) const { return s[d]; }
    int64_t stride(int d) const { int64_t r = 1; for (int i = d + 1; i < nd; ++i) r *= s[i]; return r; }
    template <class T> T* data_ptr() const { return (T*)p; }
    template <class A> A pack() const { A a; for (int i = 0; i < nd; ++i) { a.sz[i] = s[i]; a.st[i] = stride(i); } return a; }
    template <class T, int N, template <class> class P = DefaultPtrTraits> PackedTensorAccessor32<T, N, P> packed_accessor32() const {
        auto a = pack<Packed<T, N, int32_t>>(); a.p = (T*)p; return a; }
    template <class T, int N, template <class> class P = DefaultPtrTraits> PackedTensorAccessor64<T, N, P> packed_accessor64() const {
        auto a = pack<Packed<T, N, int64_t>>(); a.p = (T*)p; return a; }
};
}
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("FAIL %s\n", cudaGetErrorString(e_)); exit(1); } } while (0)
