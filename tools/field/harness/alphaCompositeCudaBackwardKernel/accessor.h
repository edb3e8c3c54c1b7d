// Minimal stand-in for the tensor accessors that the kernel takes (our own code).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
namespace at {
template <typename T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };
template <typename T, size_t N, template <typename> class P, typename I>
struct View {
  typename P<T>::PtrType data; const I* sizes_; const I* strides_;
  __host__ __device__ View(typename P<T>::PtrType d, const I* s, const I* t) : data(d), sizes_(s), strides_(t) {}
  __host__ __device__ I size(I i) const { return sizes_[i]; }
  __host__ __device__ View<T, N - 1, P, I> operator[](I i) const {
    return View<T, N - 1, P, I>(data + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
};
template <typename T, template <typename> class P, typename I>
struct View<T, 1, P, I> {
  typename P<T>::PtrType data; const I* sizes_; const I* strides_;
  __host__ __device__ View(typename P<T>::PtrType d, const I* s, const I* t) : data(d), sizes_(s), strides_(t) {}
  __host__ __device__ I size(I i) const { return sizes_[i]; }
  __host__ __device__ T& operator[](I i) const { return data[strides_[0] * i]; }
};
template <typename T, size_t N, template <typename> class P, typename I>
struct PackedView {
  typename P<T>::PtrType data_; I sizes_[N]; I strides_[N];
  PackedView(T* d, std::initializer_list<I> s) : data_(d) {
    size_t k = 0; for (I v : s) sizes_[k++] = v;
    I st = 1; for (size_t j = N; j-- > 0;) { strides_[j] = st; st *= sizes_[j]; }
  }
  __host__ __device__ I size(I i) const { return sizes_[i]; }
  __host__ __device__ auto operator[](I i) const {
    if constexpr (N == 1) return Ref{data_ + strides_[0] * i};
    else return View<T, N - 1, P, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
  struct Ref {
    T* p;
    __host__ __device__ operator T() const { return *p; }
    __host__ __device__ void operator=(T v) const { *p = v; }
  };
};
template <typename T, size_t N, template <typename> class P> using PackedTensorAccessor64 = PackedView<T, N, P, int64_t>;
template <typename T, size_t N, template <typename> class P> using PackedTensorAccessor32 = PackedView<T, N, P, int32_t>;
}  // namespace at
