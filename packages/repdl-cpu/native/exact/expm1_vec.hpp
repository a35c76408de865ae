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

// T exp(r + low) - 1 = s + rest with an error of expm1_far * T * square, square = (r + low)**2, and of
// expm1_near * s.
struct Expm1Sum {
  Vec s, rest, T, square;
};

constexpr float expm1_far = 0x1.8p-23f, expm1_near = 0x1p-41f;

// exp(k ln 2 + r + low) - 1, k at least -60 and less than 127; T - 1 has its rest only up to T = 2**24 unless
// `large`.
template <bool large>
[[gnu::always_inline]] inline Expm1Sum expm1_sum(ExpReduced x) {
  const Vec u = x.r + x.low, square = u * u;
  const Vec q = fma(square, exp_polynomial(u), x.low);

  const Vec one = Vec::set1(1.0f);
  const Vec T = scaled(exp_nearest(x.shifted), x.k, x.shifted);
  const Vec a = T - one;
  Vec a_rest;
  if constexpr (large) {
    const Vec b = a - T;
    a_rest = (T - (a - b)) - (one + b);
  } else {
    a_rest = T - (a + one);
  }
  const Vec s = fma(T, x.r, a);
  return {s, fma(T, q, fma(T, x.r, a - s) + a_rest), T, square};
}

template <class V>
[[gnu::always_inline]] inline V expm1(V given) {
  const Vec x = value_of(given);
  const Mask usual = not_tiny(x);
  const Vec z = where(usual, larger(Vec::set1(-20.0f), x));  // -1 from there on
  const Expm1Sum sum = expm1_sum<true>(exp_reduced<exp_nearest_rest<false>>(z));
  const Vec margin = fma(sum.T * sum.square, Vec::set1(expm1_far), absolute(sum.s) * Vec::set1(expm1_near));
  const Rounded y = rounded({sum.s, sum.rest}, margin);
  return or_else<exactly<exact::expm1>>(given, select(usual, y.value, x), y.decided & (x < Vec::set1(87.0f)));
}

#else

inline Vec expm1(Vec x) { return each_of<exact::expm1>(x); }

#endif

}  // namespace repdl::cpu
