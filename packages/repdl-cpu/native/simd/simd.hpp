// One vector of floats, as wide as the ISA that this module is compiled for.
//
// Every operation is one IEEE rounding an element, so a kernel written against Vec gives
// the same bits at every width.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "repdl/contract/arithmetic.hpp"

#if defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

namespace repdl::cpu {

using repdl::canonical;
using repdl::fma;

#if defined(__AVX512F__)

struct Vec {
  static constexpr int width = 16;
  static constexpr int registers = 32;
  static constexpr bool lane_products = false;  // a fused multiply-add by one lane of a register
  __m512 v;

  static Vec zero() { return {_mm512_setzero_ps()}; }
  static Vec set1(float x) { return {_mm512_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  // Half a vector from each of two places.
  static Vec load_halves(const float* p, const float* q) {
    return {_mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(p)), _mm256_loadu_ps(q), 1)};
  }
  // What is read once, from memory: Zen 4's prefetchers follow loads of 32 bytes better.
  static Vec load_streamed(const float* p) { return load_halves(p, p + width / 2); }
  static Vec load(const float* p, int n) { return {_mm512_maskz_loadu_ps(mask(n), p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store(float* p, int n) const { _mm512_mask_storeu_ps(p, mask(n), v); }
  static __mmask16 mask(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
};

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec canonical(Vec a) {
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  return {_mm512_mask_mov_ps(a.v, nan, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)))};
}

// x, loaded once: gcc would make a loaded vector an operand in memory of all that is done with it.
inline Vec in_register(Vec x) {
  asm("" : "+v"(x.v));
  return x;
}

// Every second element of low and high, one after the other.
inline Vec even(Vec low, Vec high) {
  const __m512i places = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return {_mm512_permutex2var_ps(low.v, places, high.v)};
}

// dst[j * dst_stride + i] = src[i * src_stride + j] for a square of Vec::width elements; zeros
// where i >= rows. Stores are in ascending order of j, so that they may overlap.
inline void transpose(const float* src, std::int64_t src_stride, float* dst, std::int64_t dst_stride,
                      std::int64_t rows = 16) {
  __m512 r[16], t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = i < rows ? _mm512_loadu_ps(src + i * src_stride) : _mm512_setzero_ps();
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
    r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
    r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
    r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
  }
#pragma GCC unroll 16
  for (int j = 0; j < 16; ++j) _mm512_storeu_ps(dst + j * dst_stride, r[j]);
}

#elif defined(__AVX2__) && defined(__FMA__)

struct Vec {
  static constexpr int width = 8;
  static constexpr int registers = 16;
  static constexpr bool lane_products = false;
  __m256 v;

  static Vec zero() { return {_mm256_setzero_ps()}; }
  static Vec set1(float x) { return {_mm256_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Vec load_halves(const float* p, const float* q) {
    return {_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(q), 1)};
  }
  static Vec load_streamed(const float* p) { return load(p); }
  static Vec load(const float* p, int n) { return {_mm256_maskload_ps(p, mask(n))}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  // In parts: on Zen 4 a store with a mask takes longer than all of them.
  void store(float* p, int n) const {
    if (n >= width) return store(p);
    __m128 rest = _mm256_castps256_ps128(v);
    if (n & 4) {
      _mm_storeu_ps(p, rest);
      rest = _mm256_extractf128_ps(v, 1);
      p += 4;
    }
    if (n & 2) {
      _mm_storel_pi(reinterpret_cast<__m64*>(p), rest);
      rest = _mm_movehl_ps(rest, rest);
      p += 2;
    }
    if (n & 1) _mm_store_ss(p, rest);
  }
  static __m256i mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec canonical(Vec a) {
  const __m256 nan = _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q);
  return {_mm256_blendv_ps(a.v, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), nan)};
}

inline Vec in_register(Vec x) {
  asm("" : "+x"(x.v));
  return x;
}

inline Vec even(Vec low, Vec high) {
  const __m256 pairs = _mm256_shuffle_ps(low.v, high.v, 0x88);
  return {_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(pairs), 0xd8))};
}

inline void transpose(const float* src, std::int64_t src_stride, float* dst, std::int64_t dst_stride,
                      std::int64_t rows = 8) {
  __m256 r[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = i < rows ? _mm256_loadu_ps(src + i * src_stride) : _mm256_setzero_ps();
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) _mm256_storeu_ps(dst + j * dst_stride, t[j]);
}

#else

// Any other target: the compiler's portable vectors of 16 bytes (SSE2, NEON, VSX, RVV).
struct Vec {
  typedef float Raw __attribute__((vector_size(16)));
  static constexpr int width = 4;
#if defined(__aarch64__) || defined(__VSX__)
  static constexpr int registers = 32;
#else
  static constexpr int registers = 16;
#endif
#if defined(__aarch64__)
  static constexpr bool lane_products = true;
#else
  static constexpr bool lane_products = false;
#endif
  Raw v;

  static Vec zero() { return {Raw{0, 0, 0, 0}}; }
  static Vec set1(float x) { return {Raw{x, x, x, x}}; }
  static Vec load(const float* p) {
    Vec r;
    std::memcpy(&r.v, p, sizeof r.v);
    return r;
  }
  static Vec load_halves(const float* p, const float* q) { return {Raw{p[0], p[1], q[0], q[1]}}; }
  static Vec load_streamed(const float* p) { return load(p); }
  static Vec load(const float* p, int n) {
    Vec r = zero();
    for (int i = 0; i < n && i < width; ++i) r.v[i] = p[i];
    return r;
  }
  void store(float* p) const { std::memcpy(p, &v, sizeof v); }
  void store(float* p, int n) const {
    for (int i = 0; i < n && i < width; ++i) p[i] = v[i];
  }
};

inline Vec operator+(Vec a, Vec b) { return {a.v + b.v}; }
inline Vec operator-(Vec a, Vec b) { return {a.v - b.v}; }
inline Vec operator*(Vec a, Vec b) { return {a.v * b.v}; }
inline Vec operator/(Vec a, Vec b) { return {a.v / b.v}; }
inline Vec canonical(Vec a) {
  const auto number = a.v == a.v;  // all ones or zeros, an element
  auto bits = number;
  std::memcpy(&bits, &a.v, sizeof bits);
  bits = (bits & number) | (0x7fc00000 & ~number);
  std::memcpy(&a.v, &bits, sizeof bits);
  return a;
}

inline Vec in_register(Vec x) { return x; }

inline Vec even(Vec low, Vec high) { return {Vec::Raw{low.v[0], low.v[2], high.v[0], high.v[2]}}; }

inline void transpose(const float* src, std::int64_t src_stride, float* dst, std::int64_t dst_stride,
                      std::int64_t rows = Vec::width) {
  for (int j = 0; j < Vec::width; ++j)
    for (int i = 0; i < Vec::width; ++i) dst[j * dst_stride + i] = i < rows ? src[i * src_stride + j] : 0.0f;
}

inline Vec fma_each(Vec a, Vec b, Vec c) {
  Vec r;
  for (int i = 0; i < Vec::width; ++i) r.v[i] = repdl::fma(a.v[i], b.v[i], c.v[i]);
  return r;
}

#if defined(__SSE2__) && !defined(__FP_FAST_FMAF)

// Two lanes of a * b + c as a double sum of the exact product. Rounding that to float
// again is right unless the double is the midpoint of two floats or falls below the
// normal range: `rare` collects those, and fma_each does them over.
inline __m128d fma_half(__m128 a, __m128 b, __m128 c, __m128i& rare) {
  const __m128d s = _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b)), _mm_cvtps_pd(c));
  const __m128i low = _mm_and_si128(_mm_castpd_si128(s), _mm_set1_epi64x(0x1fffffff));
  const __m128i midpoint = _mm_cmpeq_epi32(low, _mm_set1_epi64x(0x10000000));
  const __m128d small = _mm_cmplt_pd(_mm_andnot_pd(_mm_set1_pd(-0.0), s), _mm_set1_pd(0x1p-125));
  // A zero is exact and common: it is small, but not rare.
  const __m128d zero = _mm_cmpeq_pd(s, _mm_setzero_pd());
  const __m128i low_word = _mm_and_si128(midpoint, _mm_set1_epi64x(0xffffffff));
  rare = _mm_or_si128(rare, _mm_or_si128(low_word, _mm_castpd_si128(_mm_andnot_pd(zero, small))));
  return s;
}

inline Vec fma(Vec a, Vec b, Vec c) {
  __m128i rare = _mm_setzero_si128();
  const __m128 x = a.v, y = b.v, z = c.v;
  const __m128d low = fma_half(x, y, z, rare);
  const __m128d high = fma_half(_mm_movehl_ps(x, x), _mm_movehl_ps(y, y), _mm_movehl_ps(z, z), rare);
  if (__builtin_expect(_mm_movemask_epi8(_mm_cmpeq_epi8(rare, _mm_setzero_si128())) != 0xffff, 0))
    return fma_each(a, b, c);
  return {_mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high))};
}

#else

inline Vec fma(Vec a, Vec b, Vec c) { return fma_each(a, b, c); }

#endif
#endif

// p[0], p[2], p[4], ...; p[2 * Vec::width - 1] is read too.
inline Vec load_even(const float* p) { return even(Vec::load(p), Vec::load(p + Vec::width)); }

// The first n of them, with n >= 1; nothing past the last one is read.
inline Vec load_even(const float* p, int n) {
  constexpr int W = Vec::width;
  const int read = 2 * n - 1;
  return even(Vec::load(p, read < W ? read : W), read > W ? Vec::load(p + W, read - W) : Vec::zero());
}

}  // namespace repdl::cpu
