// The little of a tensor library that the kernels' headers need: a pointer with sizes and strides, and its accessors.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <initializer_list>
#define TORCH_CHECK(...) ((void)0)
namespace torch {
template <class T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };
template <class T, size_t N, template <class> class Traits, class I> struct View {
  T* __restrict__ p; const I *sz, *st;
  __host__ __device__ View(T* q, const I* a, const I* b) : p(q), sz(a), st(b) {}
  __host__ __device__ View<T, N - 1, Traits, I> operator[](I i) const { return {p + i * st[0], sz + 1, st + 1}; }
  __host__ __device__ T* data() const { return p; }
};
template <class T, template <class> class Traits, class I> struct View<T, 1, Traits, I> {
  T* __restrict__ p; const I *sz, *st;
  __host__ __device__ View(T* q, const I* a, const I* b) : p(q), sz(a), st(b) {}
  __host__ __device__ T& operator[](I i) const { return p[i * st[0]]; }
  __host__ __device__ T* data() const { return p; }
};
template <class T, size_t N, template <class> class Traits, class I> struct Packed {
  typename Traits<T>::PtrType p; I sz[N], st[N];
  __host__ __device__ I size(int i) const { return sz[i]; }
  __host__ __device__ I stride(int i) const { return st[i]; }
  __host__ __device__ T* data() const { return p; }
  __host__ __device__ View<T, N - 1, Traits, I> operator[](I i) const { return {p + i * st[0], sz + 1, st + 1}; }
};
template <class T, template <class> class Traits, class I> struct Packed<T, 1, Traits, I> {
  typename Traits<T>::PtrType p; I sz[1], st[1];
  __host__ __device__ I size(int i) const { return sz[i]; }
  __host__ __device__ T* data() const { return p; }
  __host__ __device__ T& operator[](I i) const { return p[i * st[0]]; }
};
template <class T, size_t N, template <class> class Traits> using PackedTensorAccessor32 = Packed<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits> using PackedTensorAccessor64 = Packed<T, N, Traits, int64_t>;

struct Tensor {
  void* p = nullptr; int n = 0; int64_t sz[4] = {}, st[4] = {};
  Tensor() {}
  Tensor(void* q, std::initializer_list<int64_t> s) : p(q) {
    for (int64_t v : s) sz[n++] = v;
    int64_t step = 1;
    for (int i = n - 1; i >= 0; i--) { st[i] = step; step *= sz[i]; }
  }
  bool defined() const { return p != nullptr; }
  int64_t size(int i) const { return sz[i]; }
  int64_t stride(int i) const { return st[i]; }
  template <class T> T* data_ptr() const { return (T*)p; }
  template <class A, class T> A make() const {
    A a; a.p = (T*)p;
    for (int i = 0; i < n; i++) { a.sz[i] = sz[i]; a.st[i] = st[i]; }
    return a;
  }
  template <class T, size_t N, template <class> class Traits> PackedTensorAccessor32<T, N, Traits> packed_accessor32() const {
    return make<PackedTensorAccessor32<T, N, Traits>, T>();
  }
  template <class T, size_t N, template <class> class Traits> PackedTensorAccessor64<T, N, Traits> packed_accessor64() const {
    return make<PackedTensorAccessor64<T, N, Traits>, T>();
  }
};
}  // namespace torch
