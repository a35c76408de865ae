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

// x * 2**n, n the bits of index above those of a table; x and the result normal.
inline Vec scaled(Vec x, Vec index) { return vec_of(bits_of(x) + (bits_of(index) >> table_log << 23)); }

#endif

}  // namespace repdl::cpu
