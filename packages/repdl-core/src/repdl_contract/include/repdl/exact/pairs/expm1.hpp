// expm1 by pairs of floats (pairs.hpp), and the sum that tanh takes too.
//
//   x = k ln 2 + r + low as in exp.hpp, T = 2**n t_j
//   exp(x) - 1 = (T - 1) + T (exp(r + low) - 1)
//
// Where k = 0 that is exp(r) - 1 itself, and the relative error stays small: r + r**2 / 2 is kept with what
// rounding takes from it.
#pragma once

#include "repdl/exact/pairs/exp.hpp"

namespace repdl::exact::pairs {

// T exp(r + low) - 1 = s + rest with an error of expm1_far * T * square, square = (r + low)**2, and of
// expm1_near * s.
template <class V>
struct Expm1Sum {
  V s, rest, T, square;
};

constexpr float expm1_far = 0x1.8p-23f, expm1_near = 0x1p-41f;

// exp(k ln 2 + r + low) - 1, k at least -60 and less than 127; T - 1 has its rest only up to T = 2**24 unless
// `large`.
template <bool large, class V>
REPDL_HD_INLINE Expm1Sum<V> expm1_sum(ExpReduced<V> x) {
  const V u = x.r + x.low, square = u * u;
  const V q = fma(square, exp_polynomial(u), x.low);

  const V one = V::set1(1.0f);
  const V T = scaled(exp_nearest(x.shifted), x.k, x.shifted);
  const V a = T - one;
  V a_rest;
  if constexpr (large) {
    const V b = a - T;
    a_rest = (T - (a - b)) - (one + b);
  } else {
    a_rest = T - (a + one);
  }
  const V s = fma(T, x.r, a);
  return {s, fma(T, q, fma(T, x.r, a - s) + a_rest), T, square};
}

template <class V>
REPDL_HD_INLINE Rounded<V> expm1(V x) {
  const auto usual = not_tiny(x);
  const V z = mask_or_zero(usual, larger(V::set1(-20.0f), x));  // -1 from there on
  const Expm1Sum<V> sum = expm1_sum<true>(exp_reduced<exp_nearest_rest<false, V>>(z));
  const V margin = fma(sum.T * sum.square, V::set1(expm1_far), absolute(sum.s) * V::set1(expm1_near));
  const Rounded<V> y = rounded(DoubleFloat<V>{sum.s, sum.rest}, margin);
  return {select(usual, y.value, x), y.decided & (x < V::set1(87.0f))};
}

}  // namespace repdl::exact::pairs
