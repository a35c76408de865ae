// One vector of doubles: what simd.hpp has for floats, and the choice by element type.
#pragma once

#include "simd/simd.hpp"

namespace repdl::cpu {

#if defined(__AVX512F__)

struct Vec64 {
  static constexpr int width = 8;
  static constexpr int registers = Vec::registers;
  __m512d v;

  static Vec64 zero() { return {_mm512_setzero_pd()}; }
  static Vec64 set1(double x) { return {_mm512_set1_pd(x)}; }
  static Vec64 load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static Vec64 load_streamed(const double* p) {
    return {_mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(p)), _mm256_loadu_pd(p + 4), 1)};
  }
  static Vec64 load(const double* p, int n) { return {_mm512_maskz_loadu_pd(mask(n), p)}; }
  void store(double* p) const { _mm512_storeu_pd(p, v); }
  void store(double* p, int n) const { _mm512_mask_storeu_pd(p, mask(n), v); }
  static __mmask8 mask(int n) { return static_cast<__mmask8>((1u << n) - 1u); }
};

inline Vec64 operator+(Vec64 a, Vec64 b) { return {_mm512_add_pd(a.v, b.v)}; }
inline Vec64 operator-(Vec64 a, Vec64 b) { return {_mm512_sub_pd(a.v, b.v)}; }
inline Vec64 operator*(Vec64 a, Vec64 b) { return {_mm512_mul_pd(a.v, b.v)}; }
inline Vec64 operator/(Vec64 a, Vec64 b) { return {_mm512_div_pd(a.v, b.v)}; }
inline Vec64 fma(Vec64 a, Vec64 b, Vec64 c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
inline Vec64 canonical(Vec64 a) {
  const __mmask8 nan = _mm512_cmp_pd_mask(a.v, a.v, _CMP_UNORD_Q);
  return {_mm512_mask_mov_pd(a.v, nan, _mm512_castsi512_pd(_mm512_set1_epi64(0x7ff8000000000000)))};
}

#elif defined(__AVX2__) && defined(__FMA__)

struct Vec64 {
  static constexpr int width = 4;
  static constexpr int registers = Vec::registers;
  __m256d v;

  static Vec64 zero() { return {_mm256_setzero_pd()}; }
  static Vec64 set1(double x) { return {_mm256_set1_pd(x)}; }
  static Vec64 load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static Vec64 load_streamed(const double* p) { return load(p); }
  static Vec64 load(const double* p, int n) { return {_mm256_maskload_pd(p, mask(n))}; }
  void store(double* p) const { _mm256_storeu_pd(p, v); }
  void store(double* p, int n) const { _mm256_maskstore_pd(p, mask(n), v); }
  static __m256i mask(int n) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)); }
};

inline Vec64 operator+(Vec64 a, Vec64 b) { return {_mm256_add_pd(a.v, b.v)}; }
inline Vec64 operator-(Vec64 a, Vec64 b) { return {_mm256_sub_pd(a.v, b.v)}; }
inline Vec64 operator*(Vec64 a, Vec64 b) { return {_mm256_mul_pd(a.v, b.v)}; }
inline Vec64 operator/(Vec64 a, Vec64 b) { return {_mm256_div_pd(a.v, b.v)}; }
inline Vec64 fma(Vec64 a, Vec64 b, Vec64 c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
inline Vec64 canonical(Vec64 a) {
  const __m256d nan = _mm256_cmp_pd(a.v, a.v, _CMP_UNORD_Q);
  return {_mm256_blendv_pd(a.v, _mm256_castsi256_pd(_mm256_set1_epi64x(0x7ff8000000000000)), nan)};
}

#else

struct Vec64 {
  typedef double Raw __attribute__((vector_size(16)));
  static constexpr int width = 2;
  static constexpr int registers = Vec::registers;
  Raw v;

  static Vec64 zero() { return {Raw{0, 0}}; }
  static Vec64 set1(double x) { return {Raw{x, x}}; }
  static Vec64 load(const double* p) {
    Vec64 r;
    std::memcpy(&r.v, p, sizeof r.v);
    return r;
  }
  static Vec64 load_streamed(const double* p) { return load(p); }
  static Vec64 load(const double* p, int n) { return {Raw{n > 0 ? p[0] : 0.0, n > 1 ? p[1] : 0.0}}; }
  void store(double* p) const { std::memcpy(p, &v, sizeof v); }
  void store(double* p, int n) const {
    for (int i = 0; i < n && i < width; ++i) p[i] = v[i];
  }
};

inline Vec64 operator+(Vec64 a, Vec64 b) { return {a.v + b.v}; }
inline Vec64 operator-(Vec64 a, Vec64 b) { return {a.v - b.v}; }
inline Vec64 operator*(Vec64 a, Vec64 b) { return {a.v * b.v}; }
inline Vec64 operator/(Vec64 a, Vec64 b) { return {a.v / b.v}; }
inline Vec64 fma(Vec64 a, Vec64 b, Vec64 c) {
  return {Vec64::Raw{repdl::fma(a.v[0], b.v[0], c.v[0]), repdl::fma(a.v[1], b.v[1], c.v[1])}};
}
inline Vec64 canonical(Vec64 a) {
  const auto number = a.v == a.v;
  auto bits = number;
  std::memcpy(&bits, &a.v, sizeof bits);
  bits = (bits & number) | (0x7ff8000000000000 & ~number);
  std::memcpy(&a.v, &bits, sizeof bits);
  return a;
}

#endif

template <class T>
struct VectorOf {
  using type = Vec;
};
template <>
struct VectorOf<double> {
  using type = Vec64;
};

// The vector of an element type.
template <class T>
using VecOf = typename VectorOf<T>::type;

}  // namespace repdl::cpu
