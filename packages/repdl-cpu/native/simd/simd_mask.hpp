// Comparisons, tables and exponents of a Vec, where the ISA has them (AVX2 with FMA, AVX-512).
#pragma once

#include "repdl/exact/pairs/pairs.hpp"
#include "repdl/exact/two_paths.hpp"
#include "simd/simd.hpp"

namespace repdl::cpu {

#if defined(__AVX512F__)

struct Mask {
  __mmask16 m;
};

inline Mask operator&(Mask a, Mask b) { return {static_cast<__mmask16>(a.m & b.m)}; }
inline Mask operator|(Mask a, Mask b) { return {static_cast<__mmask16>(a.m | b.m)}; }
inline Mask operator!(Mask a) { return {static_cast<__mmask16>(~a.m)}; }
inline bool any(Mask a) { return a.m != 0; }
inline Mask everywhere() { return {0xffff}; }
inline bool all(Mask a) { return a.m == 0xffff; }
inline unsigned lanes_of(Mask a) { return a.m; }
inline Mask operator<(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask operator==(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline Mask first_lanes(int n) { return {Vec::mask(n)}; }
inline Mask sign(Vec a) { return {_mm512_movepi32_mask(_mm512_castps_si512(a.v))}; }
inline Vec select(Mask mask, Vec a, Vec b) { return {_mm512_mask_mov_ps(b.v, mask.m, a.v)}; }
inline Vec mask_or_zero(Mask mask, Vec a) { return {_mm512_maskz_mov_ps(mask.m, a.v)}; }    // and +0 elsewhere
inline Mask not_less(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NLT_UQ)}; }  // true of NaN

inline Vec operator-(Vec a) { return {-a.v}; }
inline Vec smaller(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }  // b where one is NaN
inline Vec larger(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }   // the same
inline Vec root(Vec x) { return {_mm512_sqrt_ps(x.v)}; }
inline Vec absolute(Vec x) { return {_mm512_abs_ps(x.v)}; }
inline Vec minus_absolute(Vec x) { return {_mm512_or_ps(x.v, _mm512_set1_ps(-0.0f))}; }

// Entries of a table that is looked up in registers.
constexpr int table_entries = 32;

inline Vec look_up(const float* table, Vec index) {
  return {_mm512_permutex2var_ps(_mm512_load_ps(table), _mm512_castps_si512(index.v), _mm512_load_ps(table + 16))};
}

#elif defined(__AVX2__) && defined(__FMA__)

struct Mask {
  __m256 m;
};

inline Mask operator&(Mask a, Mask b) { return {_mm256_and_ps(a.m, b.m)}; }
inline Mask operator|(Mask a, Mask b) { return {_mm256_or_ps(a.m, b.m)}; }
inline Mask operator!(Mask a) { return {_mm256_xor_ps(a.m, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))}; }
inline Mask everywhere() { return {_mm256_castsi256_ps(_mm256_set1_epi32(-1))}; }
inline bool any(Mask a) { return _mm256_movemask_ps(a.m) != 0; }
inline bool all(Mask a) { return _mm256_movemask_ps(a.m) == 0xff; }
inline unsigned lanes_of(Mask a) { return static_cast<unsigned>(_mm256_movemask_ps(a.m)); }
inline Mask operator<(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask operator==(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
inline Mask first_lanes(int n) { return {_mm256_castsi256_ps(Vec::mask(n))}; }
inline Mask sign(Vec a) { return {a.v}; }  // all that instructions read of a Mask is the sign
inline Vec select(Mask mask, Vec a, Vec b) { return {_mm256_blendv_ps(b.v, a.v, mask.m)}; }
inline Vec mask_or_zero(Mask mask, Vec a) { return {_mm256_and_ps(mask.m, a.v)}; }
inline Mask not_less(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_NLT_UQ)}; }

inline Vec operator-(Vec a) { return {-a.v}; }
inline Vec smaller(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Vec larger(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
inline Vec root(Vec x) { return {_mm256_sqrt_ps(x.v)}; }
inline Vec absolute(Vec x) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x.v)}; }
inline Vec minus_absolute(Vec x) { return {_mm256_or_ps(x.v, _mm256_set1_ps(-0.0f))}; }

constexpr int table_entries = 16;

inline Vec look_up(const float* table, Vec index) {
  const __m256i i = _mm256_castps_si256(index.v);
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_load_ps(table), i);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_load_ps(table + 8), i);
  return {_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)))};  // bit 3 as the sign
}

#else

struct Mask {
  bool m[Vec::width];
};

inline Vec absolute(Vec x) {
  for (int i = 0; i < Vec::width; ++i) x.v[i] = std::fabs(x.v[i]);
  return x;
}
template <class Compare>
inline Mask compared(Vec a, Vec b, Compare compare) {
  float x[Vec::width], y[Vec::width];
  a.store(x), b.store(y);
  Mask result;
  for (int i = 0; i < Vec::width; ++i) result.m[i] = compare(x[i], y[i]);
  return result;
}
inline Mask operator<(Vec a, Vec b) {
  return compared(a, b, [](float x, float y) { return x < y; });
}
inline Mask operator==(Vec a, Vec b) {
  return compared(a, b, [](float x, float y) { return x == y; });
}
inline Mask operator&(Mask a, Mask b) {
  for (int i = 0; i < Vec::width; ++i) a.m[i] = a.m[i] && b.m[i];
  return a;
}
inline Mask first_lanes(int n) {
  Mask result;
  for (int i = 0; i < Vec::width; ++i) result.m[i] = i < n;
  return result;
}
inline Vec select(Mask mask, Vec a, Vec b) {
  float x[Vec::width], y[Vec::width];
  a.store(x), b.store(y);
  for (int i = 0; i < Vec::width; ++i) y[i] = mask.m[i] ? x[i] : y[i];
  return Vec::load(y);
}
inline Vec mask_or_zero(Mask mask, Vec a) { return select(mask, a, Vec::zero()); }

#endif

inline Vec sign_of(Vec x) {
  const Vec zero = Vec::zero();
  return select(zero < x, Vec::set1(1), select(x < zero, Vec::set1(-1), zero));
}

// f of each element: a loop that the compiler vectorises.
template <float (*f)(float)>
inline Vec each_of(Vec x) {
  float all[Vec::width];
  x.store(all);
  for (float& element : all) element = f(element);
  return Vec::load(all);
}

#if defined(__AVX2__) && defined(__FMA__)

}  // namespace repdl::cpu

namespace repdl::exact::pairs {

template <>
struct Entries<cpu::Vec> {
  static constexpr int value = cpu::table_entries;
};

}  // namespace repdl::exact::pairs

namespace repdl::cpu {

namespace pairs = exact::pairs;

constexpr int table_log = pairs::table_log<Vec>;
using Table = pairs::Table<Vec>;
using Rounded = pairs::Rounded<Vec>;
using pairs::between;

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

// y >= 0 with the sign of x.
inline Vec with_sign(Vec y, Vec x) {
  const Vec sign = Vec::set1(-0.0f);
#if defined(__AVX512F__)
  const auto bits = [](Vec v) { return _mm512_castps_si512(v.v); };
  constexpr int or_and = 0xf8;  // y | (x & sign)
  return {_mm512_castsi512_ps(_mm512_ternarylogic_epi32(bits(y), bits(x), bits(sign), or_and))};
#else
  return vec_of(bits_of(y) | (bits_of(x) & bits_of(sign)));
#endif
}

// False of arguments whose squares would be subnormal. A subnormal constant, operand or result costs some
// processors a hundred cycles, so that whole Vecs are computed without (tests/test_subnormal.py).
inline Mask not_tiny(Vec x) { return not_less(absolute(x), Vec::set1(0x1p-40f)); }

// Called from a cold function, but itself compiled for speed.
template <float (*f)(float)>
__attribute__((noinline)) Vec each_of_apart(Vec x) {
  return each_of<f>(x);
}

template <class F>
__attribute__((noinline)) Vec each_of_apart(Vec x) {
  float in[Vec::width], out[Vec::width];
  x.store(in);
  exact::evaluate(F(), out, Vec::width, in);
  return Vec::load(out);
}

// f(x) where `undecided`, y elsewhere.
template <float (*f)(float)>
__attribute__((noinline, cold)) Vec exactly(Vec x, Vec y, Mask undecided) {
  return select(undecided, each_of_apart<f>(x), y);
}

// The same for a function with two paths (two_paths.hpp).
template <class F>
__attribute__((noinline, cold)) Vec exactly(Vec x, Vec y, Mask undecided) {
  return select(undecided, each_of_apart<F>(x), y);
}

// x * 2**floor(k), x and the result normal; shifted = k + table_magic.
inline Vec scaled(Vec x, Vec k, Vec shifted) {
#if defined(__AVX512F__)
  static_cast<void>(shifted);
  return {_mm512_maskz_scalef_ps(0xffff, x.v, k.v)};  // gcc 12 warns of the plain one
#else
  static_cast<void>(k);
  return vec_of(bits_of(x) + (bits_of(shifted) >> table_log << 23));
#endif
}

// Whether `scaled` gives an exponential of x where that is normal for |x| < end.
inline Mask scales(Vec x, float end) {
#if defined(__AVX512F__)
  return Vec::set1(-end) < x;  // larger ones overflow to infinity, as they should
#else
  return absolute(x) < Vec::set1(end);
#endif
}

// x = 2**exponent mantissa, 1 <= mantissa < 2, and its leading bits as the index of tables. Something is NaN
// where x is not positive and finite, or `has_parts` is false, as it may be of subnormal x.
struct Parts {
  Vec exponent, mantissa, index;
};

inline Parts parts(Vec x) {
#if defined(__AVX512F__)
  const Vec mantissa{_mm512_maskz_getmant_ps(0xffff, x.v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan)};
  return {{_mm512_maskz_getexp_ps(0xffff, x.v)}, mantissa, vec_of(bits_of(mantissa) >> (23 - table_log))};
#else
  const Bits shifted = bits_of(x) - 0x3f800000, n = shifted >> 23;
  const Vec exponent{__builtin_convertvector(n, decltype(Vec::v))};
  return {exponent, vec_of((shifted & 0x7fffff) + 0x3f800000), vec_of(shifted >> (23 - table_log))};
#endif
}

inline Mask has_parts(Vec x) {
#if defined(__AVX512F__)
  static_cast<void>(x);
  return everywhere();
#else
  return (Vec::set1(0x1p-126f) < x) & (x < Vec::set1(__builtin_inff()));
#endif
}

// A Vec of which only what is `decided` is right: a loop that computes several can ask once for all of them,
// and the compiler has one chain of instructions to fill the gaps of another. Functions take and return a Vec,
// or a TestedVec.
struct TestedVec {
  Vec value;
  Mask decided;
};

inline TestedVec tested(Vec x) { return {x, everywhere()}; }

inline TestedVec operator+(TestedVec a, TestedVec b) { return {a.value + b.value, a.decided & b.decided}; }
inline TestedVec operator-(TestedVec a, TestedVec b) { return {a.value - b.value, a.decided & b.decided}; }
inline TestedVec operator*(TestedVec a, TestedVec b) { return {a.value * b.value, a.decided & b.decided}; }
inline TestedVec operator/(TestedVec a, TestedVec b) { return {a.value / b.value, a.decided & b.decided}; }

struct TestedMask {
  Mask value, decided;
};

inline TestedMask operator<(TestedVec a, TestedVec b) { return {a.value < b.value, a.decided & b.decided}; }
inline TestedMask operator==(TestedVec a, TestedVec b) { return {a.value == b.value, a.decided & b.decided}; }
inline TestedMask operator&(TestedMask a, TestedMask b) { return {a.value & b.value, a.decided & b.decided}; }
inline TestedVec select(TestedMask mask, TestedVec a, TestedVec b) {
  return {select(mask.value, a.value, b.value), mask.decided & a.decided & b.decided};
}

inline Vec value_of(Vec x) { return x; }
inline Vec value_of(TestedVec x) { return x.value; }

// y where `decided`, elsewhere `slow(x, y, undecided)`, which rounds rightly.
template <Vec (*slow)(Vec, Vec, Mask)>
inline Vec or_else(Vec x, Vec y, Mask decided) {
  return __builtin_expect(all(decided), 1) ? y : slow(x, y, !decided);
}

template <Vec (*slow)(Vec, Vec, Mask)>
inline TestedVec or_else(TestedVec x, Vec y, Mask decided) {
  return {y, x.decided & decided};
}

template <Vec (*slow)(Vec, Vec, Mask), class V>
inline V or_else(V x, Rounded y) {
  return or_else<slow>(x, y.value, y.decided);
}

#endif

}  // namespace repdl::cpu
