// tanh by pairs of floats (pairs.hpp).
//
//   m = exp(-2|x|) - 1 as s + rest (expm1.hpp);  tanh(|x|) = -m / (2 + m)
//   y = -s / (2 + s), rounded; what is missing is (-m - y (2 + m)) / (2 + m), where -s - 2y is exact
#pragma once

#include "repdl/exact/pairs/expm1.hpp"

namespace repdl::exact::pairs {

// An error e T of m is one of 2 e T / (1 + T)**2 <= e / 2 here, e by the square of expm1.hpp.
constexpr float tanh_margin = 0x1.bp-24f, tanh_floor = 0x1.bp-45f;

template <class V>
REPDL_HD_INLINE Rounded<V> tanh(V x) {
  const V negative = minus_absolute(x);
  const auto usual = not_less(V::set1(-0x1p-13f), negative);          // tanh(x) = x elsewhere
  const V z = mask_or_zero(usual, larger(V::set1(-9.5f), negative));  // 1 beyond
  const Expm1Sum<V> m = expm1_sum<false>(exp_reduced<exp_nearest_rest<false, V>>(z + z));

  const V one = V::set1(1.0f), two = V::set1(2.0f);
  const V whole = m.s + m.rest, inverse = one / (two + whole);
  const V y = fma(-whole, inverse, V::zero());
  V missing = fma(-y, m.s, fma(-two, y, -m.s));
  missing = fma(-m.rest, one + y, missing);
  const V margin = mask_or_zero(usual, fma(m.square, V::set1(tanh_margin), V::set1(tanh_floor)));
  const Rounded<V> result = between(y, fma(missing, inverse, -margin), fma(missing, inverse, margin));
  return {select(usual, with_sign(result.value, x), x), result.decided};
}

}  // namespace repdl::exact::pairs
