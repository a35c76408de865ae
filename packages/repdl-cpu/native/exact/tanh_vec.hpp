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

// The largest relative error that was measured, and a little.
constexpr float tanh_margin = table_entries == 32 ? 0x1p-37f : 0x1.bp-36f;

[[gnu::always_inline]] inline Vec tanh(Vec x) {
  const Mask usual = not_tiny(x);
  // 1 beyond 9.5; -2|x| = k ln 2 + 2 r
  const Vec z = larger(Vec::set1(-9.5f), where(usual, minus_absolute(x)));
  const ExpReduced e = exp_reduced<false>(z + z);
  const FloatSum m = expm1_sum<false>(e.k, e.shifted, e.r, e.low);

  const Vec one = Vec::set1(1.0f), two = Vec::set1(2.0f);
  const Vec inverse = one / (two + (m.s + m.rest));
  const Vec y = -m.s * inverse;
  Vec missing = fma(-y, m.s, fma(-two, y, -m.s));
  missing = fma(-m.rest, one + y, missing);
  const Rounded result = rounded({y, missing * inverse}, y * Vec::set1(tanh_margin));
  return or_else<exactly<exact::tanh>>(x, select(usual, with_sign(result.value, x), x), result.decided);
}

#else

inline Vec tanh(Vec x) { return each_of<exact::tanh>(x); }

#endif

}  // namespace repdl::cpu
