// Stand-in (ours): just enough of a complex type for the headers; the harness runs real weights.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <type_traits>
#include <cmath>
namespace c10 {
template <class T> struct complex {
    T real_ = 0, imag_ = 0;
    complex() = default;
    __host__ __device__ complex(T re, T im = 0) : real_(re), imag_(im) {}
};
template <class T> __host__ __device__ inline complex<T> operator+(complex<T> a, complex<T> b) { return complex<T>(a.real_ + b.real_, a.imag_ + b.imag_); }
template <class T> __host__ __device__ inline complex<T> operator*(complex<T> a, complex<T> b) { return complex<T>(a.real_ * b.real_ - a.imag_ * b.imag_, a.real_ * b.imag_ + a.imag_ * b.real_); }
}
namespace std { template <class T> __host__ __device__ inline c10::complex<T> conj(c10::complex<T> a) { return c10::complex<T>(a.real_, -a.imag_); } }
