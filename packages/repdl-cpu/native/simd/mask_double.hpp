// Comparisons, tables and bits of a Vec64, where the ISA has them (AVX2 with FMA, AVX-512): what
// repdl/exact/double_double/arithmetic.hpp asks of a vector.
#pragma once

#include "simd/simd_double.hpp"

namespace repdl::cpu {

#if defined(__AVX512F__)

struct Mask64 {
  __mmask8 m;
};

inline Mask64 operator&(Mask64 a, Mask64 b) { return {static_cast<__mmask8>(a.m & b.m)}; }
inline Mask64 operator|(Mask64 a, Mask64 b) { return {static_cast<__mmask8>(a.m | b.m)}; }
inline unsigned lanes_of(Mask64 a) { return a.m; }
inline Mask64 operator<(Vec64 a, Vec64 b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask64 operator==(Vec64 a, Vec64 b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline Vec64 select(Mask64 mask, Vec64 a, Vec64 b) { return {_mm512_mask_mov_pd(b.v, mask.m, a.v)}; }

inline __m512i bits_of(Vec64 x) { return _mm512_castpd_si512(x.v); }
inline Vec64 vec_of(__m512i bits) { return {_mm512_castsi512_pd(bits)}; }
inline Vec64 and_bits(Vec64 x, std::uint64_t mask) {
  return vec_of(_mm512_and_si512(bits_of(x), _mm512_set1_epi64(static_cast<long long>(mask))));
}
inline Vec64 or_bits(Vec64 x, Vec64 y) { return vec_of(_mm512_or_si512(bits_of(x), bits_of(y))); }
inline Vec64 plus_bits(Vec64 x, Vec64 y) { return vec_of(_mm512_add_epi64(bits_of(x), bits_of(y))); }
inline Vec64 minus_bits(Vec64 x, Vec64 y) { return vec_of(_mm512_sub_epi64(bits_of(x), bits_of(y))); }
inline Vec64 left(Vec64 x, unsigned by) { return vec_of(_mm512_slli_epi64(bits_of(x), by)); }
inline Vec64 right(Vec64 x, unsigned by) { return vec_of(_mm512_srli_epi64(bits_of(x), by)); }
inline Vec64 exponent_of(Vec64 power) { return {_mm512_cvtepi64_pd(_mm512_srai_epi64(bits_of(power), 52))}; }
inline Vec64 root(Vec64 x) { return {_mm512_sqrt_pd(x.v)}; }
inline Vec64 look_up(const double* table, Vec64 index) { return {_mm512_i64gather_pd(bits_of(index), table, 8)}; }

#elif defined(__AVX2__) && defined(__FMA__)

struct Mask64 {
  __m256d m;
};

inline Mask64 operator&(Mask64 a, Mask64 b) { return {_mm256_and_pd(a.m, b.m)}; }
inline Mask64 operator|(Mask64 a, Mask64 b) { return {_mm256_or_pd(a.m, b.m)}; }
inline unsigned lanes_of(Mask64 a) { return static_cast<unsigned>(_mm256_movemask_pd(a.m)); }
inline Mask64 operator<(Vec64 a, Vec64 b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask64 operator==(Vec64 a, Vec64 b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_EQ_OQ)}; }
inline Vec64 select(Mask64 mask, Vec64 a, Vec64 b) { return {_mm256_blendv_pd(b.v, a.v, mask.m)}; }

inline __m256i bits_of(Vec64 x) { return _mm256_castpd_si256(x.v); }
inline Vec64 vec_of(__m256i bits) { return {_mm256_castsi256_pd(bits)}; }
inline Vec64 and_bits(Vec64 x, std::uint64_t mask) {
  return vec_of(_mm256_and_si256(bits_of(x), _mm256_set1_epi64x(static_cast<long long>(mask))));
}
inline Vec64 or_bits(Vec64 x, Vec64 y) { return vec_of(_mm256_or_si256(bits_of(x), bits_of(y))); }
inline Vec64 plus_bits(Vec64 x, Vec64 y) { return vec_of(_mm256_add_epi64(bits_of(x), bits_of(y))); }
inline Vec64 minus_bits(Vec64 x, Vec64 y) { return vec_of(_mm256_sub_epi64(bits_of(x), bits_of(y))); }
inline Vec64 left(Vec64 x, int by) { return vec_of(_mm256_slli_epi64(bits_of(x), by)); }
inline Vec64 right(Vec64 x, int by) { return vec_of(_mm256_srli_epi64(bits_of(x), by)); }
inline Vec64 exponent_of(Vec64 power) {
  // As a biased exponent, which is not negative, in the lower bits of 2**52.
  const __m256i biased =
      _mm256_srli_epi64(_mm256_add_epi64(bits_of(power), _mm256_set1_epi64x(0x3ff0000000000000)), 52);
  const __m256i shifted = _mm256_add_epi64(biased, _mm256_set1_epi64x(0x4330000000000000));
  return {_mm256_sub_pd(_mm256_castsi256_pd(shifted), _mm256_set1_pd(0x1p+52 + 1023))};
}
inline Vec64 root(Vec64 x) { return {_mm256_sqrt_pd(x.v)}; }
inline Vec64 look_up(const double* table, Vec64 index) { return {_mm256_i64gather_pd(table, bits_of(index), 8)}; }

#endif

#if defined(__AVX2__) && defined(__FMA__)

constexpr bool vectors_of_doubles = true;  // of exact functions

constexpr unsigned all_lanes64 = (1u << Vec64::width) - 1u;

inline bool everywhere(Mask64 a) { return lanes_of(a) == all_lanes64; }
inline Vec64 operator-(Vec64 a) { return {-a.v}; }
inline Vec64 mul(Vec64 a, Vec64 b) { return a * b; }
inline Vec64 madd(Vec64 a, Vec64 b, Vec64 c) { return fma(a, b, c); }
inline Vec64 product_error(Vec64 a, Vec64 b, Vec64 p) { return fma(a, b, -p); }
inline Vec64 absolute(Vec64 x) { return and_bits(x, 0x7fffffffffffffffu); }
inline Vec64 sign_of(Vec64 x) {
  const Vec64 zero = Vec64::zero();
  return select(zero < x, Vec64::set1(1), select(x < zero, Vec64::set1(-1), zero));
}
inline Vec64 with_sign(Vec64 size, Vec64 x) { return or_bits(size, and_bits(x, 0x8000000000000000u)); }

#else

constexpr bool vectors_of_doubles = false;

inline Vec64 absolute(Vec64 x) {
  for (int i = 0; i < Vec64::width; ++i) x.v[i] = std::fabs(x.v[i]);
  return x;
}
inline Vec64 sign_of(Vec64 x) {
  for (int i = 0; i < Vec64::width; ++i) x.v[i] = x.v[i] > 0 ? 1 : x.v[i] < 0 ? -1 : 0;
  return x;
}

#endif

}  // namespace repdl::cpu
