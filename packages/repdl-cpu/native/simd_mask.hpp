// Comparisons, tables and exponents of a Vec, where the ISA has them (AVX2 with FMA, AVX-512).
#pragma once

#include "simd.hpp"

namespace repdl::cpu {

#if defined(__AVX512F__)

struct Mask {
  __mmask16 m;
};

inline Mask operator&(Mask a, Mask b) { return {static_cast<__mmask16>(a.m & b.m)}; }
inline Mask operator|(Mask a, Mask b) { return {static_cast<__mmask16>(a.m | b.m)}; }
inline Mask operator!(Mask a) { return {static_cast<__mmask16>(~a.m)}; }
inline bool any(Mask a) { return a.m != 0; }
inline Mask operator<(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask operator==(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline Vec select(Mask mask, Vec a, Vec b) { return {_mm512_mask_mov_ps(b.v, mask.m, a.v)}; }

inline Vec root(Vec x) { return {_mm512_sqrt_ps(x.v)}; }
inline Vec absolute(Vec x) { return {_mm512_abs_ps(x.v)}; }

// Entries of a table that is looked up in registers; of the 32 in memory every other one where 16.
constexpr int table_entries = 32;

struct Table {
  __m512 low, high;
  explicit Table(const float (&all)[32]) : low(_mm512_loadu_ps(all)), high(_mm512_loadu_ps(all + 16)) {}
  // The entries at the low bits of index.
  Vec operator[](Vec index) const { return {_mm512_permutex2var_ps(low, _mm512_castps_si512(index.v), high)}; }
};

#elif defined(__AVX2__) && defined(__FMA__)

struct Mask {
  __m256 m;
};

inline Mask operator&(Mask a, Mask b) { return {_mm256_and_ps(a.m, b.m)}; }
inline Mask operator|(Mask a, Mask b) { return {_mm256_or_ps(a.m, b.m)}; }
inline Mask operator!(Mask a) { return {_mm256_xor_ps(a.m, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))}; }
inline bool any(Mask a) { return _mm256_movemask_ps(a.m) != 0; }
inline Mask operator<(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask operator==(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
inline Vec select(Mask mask, Vec a, Vec b) { return {_mm256_blendv_ps(b.v, a.v, mask.m)}; }

inline Vec root(Vec x) { return {_mm256_sqrt_ps(x.v)}; }
inline Vec absolute(Vec x) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x.v)}; }

constexpr int table_entries = 16;

struct Table {
  __m256 low, high;
  explicit Table(const float (&all)[32]) : low(load_even(all).v), high(load_even(all + 16).v) {}
  Vec operator[](Vec index) const {
    const __m256i i = _mm256_castps_si256(index.v);
    const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(i, 28));  // bit 3 as the sign
    return {_mm256_blendv_ps(_mm256_permutevar8x32_ps(low, i), _mm256_permutevar8x32_ps(high, i), upper)};
  }
};

#endif

#if defined(__AVX2__) && defined(__FMA__)

// The bits of a Vec as integers, and back.
typedef std::int32_t Bits __attribute__((vector_size(sizeof(Vec))));

inline Bits bits_of(Vec x) {
  Bits bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline Vec vec_of(Bits bits) {
  Vec x;
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}

constexpr int table_log = table_entries == 32 ? 5 : 4;

// f(x) where `undecided`, y elsewhere.
template <float (*f)(float)>
__attribute__((noinline, cold)) Vec one_by_one(Vec x, Vec y, Mask undecided) {
  float from[Vec::width], to[Vec::width], which[Vec::width];
  x.store(from);
  y.store(to);
  select(undecided, Vec::set1(1.0f), Vec::zero()).store(which);
  for (int i = 0; i < Vec::width; ++i)
    if (which[i] != 0.0f) to[i] = f(from[i]);
  return Vec::load(to);
}

// s + rest where an interval of `margin` around it rounds to one float, elsewhere and where not
// `usual` f(x), which rounds rightly but slowly.
template <float (*f)(float)>
inline Vec rounded_or(Vec x, Vec s, Vec rest, Vec margin, Mask usual) {
  const Vec below = s + (rest - margin), above = s + (rest + margin);
  const Mask undecided = !((below == above) & usual);
  return __builtin_expect(any(undecided), 0) ? one_by_one<f>(x, below, undecided) : below;
}

// 2**n, n the bits of index above those of a table, -127 < n < 128.
inline Vec power(Vec index) {
  return vec_of(((bits_of(index) >> table_log) + 127) << 23);
}

// x * 2**n, n the bits of index above those of a table; x and the result normal.
inline Vec scaled(Vec x, Vec index) { return vec_of(bits_of(x) + (bits_of(index) >> table_log << 23)); }

#else

// f of each element.
template <float (*f)(float)>
inline Vec each_of(Vec x) {
  float all[Vec::width];
  x.store(all);
  for (float& element : all) element = f(element);
  return Vec::load(all);
}

#endif

}  // namespace repdl::cpu
