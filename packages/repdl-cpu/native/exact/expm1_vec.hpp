// expm1 of a whole Vec: the bits of repdl/exact/expm1.hpp, most of the time without doubles.
//
//   x = k ln 2 + r + low as in exp_vec.hpp, T = 2**n t_j
//   exp(x) - 1 = (T - 1) + T (exp(r + low) - 1)
//
// Where k = 0 that is exp(r) - 1 itself, and the relative error stays small: r + r**2 / 2 is kept with what
// rounding takes from it. simd_mask.hpp says how results are decided.
#pragma once

#include "exact/exp_vec.hpp"
#include "repdl/exact/expm1.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

// The largest relative error that was measured, and a little.
constexpr float expm1_margin = table_entries == 32 ? 0x1p-37f : 0x1.2p-36f;

// exp(k ln 2 + r + low) - 1, k at least -60 and less than 127; T - 1 has its rest only up to T = 2**24 unless
// `large`.
template <bool large>
[[gnu::always_inline]] inline FloatSum expm1_sum(Vec k, Vec shifted, Vec r, Vec low) {
  // exp(r) - 1 = r + r**2 / 2 + r**3 c / 2; tools/exact/generate_vec.py
  Vec c = fma(Vec::set1(0x1.1111a8p-6f), r, Vec::set1(0x1.55565cp-4f));
  c = fma(c, r, Vec::set1(0x1.555556p-2f));
  const Vec half = r * Vec::set1(0.5f);
  const Vec p = fma(half, r, r);
  Vec p_rest = fma(half, r, r - p);
  p_rest = fma(half * r, r * c, p_rest);
  p_rest = p_rest + fma(low, p, low);

  const Vec one = Vec::set1(1.0f);
  const Vec T = scaled(exp_table(shifted), k, shifted);
  const Vec a = T - one;
  Vec a_rest;
  if constexpr (large) {
    const Vec b = a - T;
    a_rest = (T - (a - b)) - (one + b);
  } else {
    a_rest = T - (a + one);
  }
  const Vec product = T * p, product_rest = fma(T, p, -product);
  const Vec s = a + product;
  const Vec s_rest = product - (s - a);
  return {s, fma(T, p_rest, (s_rest + product_rest) + a_rest)};
}

[[gnu::always_inline]] inline Vec expm1(Vec x) {
  const Mask usual = not_tiny(x);
  const Vec z = larger(Vec::set1(-20.0f), where(usual, x));  // -1 from there on
  const ExpReduced e = exp_reduced<false>(z);
  const FloatSum sum = expm1_sum<true>(e.k, e.shifted, e.r, e.low);
  const Rounded y = rounded(sum, absolute(sum.s) * Vec::set1(expm1_margin));
  return or_else<exactly<exact::expm1>>(x, select(usual, y.value, x), y.decided & (x < Vec::set1(87.0f)));
}

#else

inline Vec expm1(Vec x) { return each_of<exact::expm1>(x); }

#endif

}  // namespace repdl::cpu
