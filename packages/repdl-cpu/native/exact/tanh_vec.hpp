// tanh of a whole Vec: the bits of repdl/exact/tanh.hpp, most of the time without doubles.
//
//   m = exp(-2|x|) - 1 as s + rest (expm1_vec.hpp);  tanh(|x|) = -m / (2 + m)
//   y = -s / (2 + s), rounded; what is missing is (-m - y (2 + m)) / (2 + m), where -s - 2y is exact
//
// simd_mask.hpp says how results are decided.
#pragma once

#include "exact/expm1_vec.hpp"
#include "repdl/exact/tanh.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

// An error e T of m is one of 2 e T / (1 + T)**2 <= e / 2 here, e by the square of expm1_vec.hpp.
constexpr float tanh_margin = 0x1.bp-24f, tanh_floor = 0x1.bp-45f;

template <class V>
[[gnu::always_inline]] inline V tanh(V given) {
  const Vec x = value_of(given);
  const Vec negative = minus_absolute(x);
  const Mask usual = not_less(Vec::set1(-0x1p-13f), negative);     // tanh(x) = x elsewhere
  const Vec z = where(usual, larger(Vec::set1(-9.5f), negative));  // 1 beyond
  const Expm1Sum m = expm1_sum<false>(exp_reduced<exp_nearest_rest<false>>(z + z));

  const Vec one = Vec::set1(1.0f), two = Vec::set1(2.0f);
  const Vec whole = m.s + m.rest, inverse = one / (two + whole);
  const Vec y = fma(-whole, inverse, Vec::zero());
  Vec missing = fma(-y, m.s, fma(-two, y, -m.s));
  missing = fma(-m.rest, one + y, missing);
  const Vec margin = where(usual, fma(m.square, Vec::set1(tanh_margin), Vec::set1(tanh_floor)));
  const Rounded result = between(y, fma(missing, inverse, -margin), fma(missing, inverse, margin));
  return or_else<exactly<exact::tanh>>(given, select(usual, with_sign(result.value, x), x), result.decided);
}

#else

inline Vec tanh(Vec x) { return each_of<exact::tanh>(x); }

#endif

}  // namespace repdl::cpu
