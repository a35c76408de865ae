// sigmoid by pairs of floats (pairs.hpp).
//
//   e = exp(-|x|) as s + rest (exp.hpp); sigmoid(x) = n / (1 + e), n = 1 or, for negative x, e
//   i = 1 / (1 + e) and y = n i with s for e in n, rounded
//   n / (1 + e) = y + i (n - y (1 + e)), nearly; n - y is exact
#pragma once

#include "repdl/exact/pairs/exp.hpp"

namespace repdl::exact::pairs {

// The largest relative error that was measured, and a little.
template <class V>
constexpr float sigmoid_margin = entries<V> == 32 ? 0x1.ap-36f : 0x1.bp-34f;

// Arguments below sigmoid_end are taken for it, so that nothing is subnormal, not even the square of the
// result. There `floor` is half an ulp of the result or more, and nothing is decided.
constexpr float sigmoid_end = -43.0f, sigmoid_floor = 0x1p-86f;

// e
template <class V>
REPDL_HD_INLINE DoubleFloat<V> sigmoid_exponential(V x) {
  const ExpVecParts<V> parts =
      exp_vec_parts<exp_nearest<V>, exp_nearest_rest<true, V>>(larger(V::set1(sigmoid_end), minus_absolute(x)));
  return parts.times(scaled(parts.t, parts.k, parts.shifted));
}

// sigmoid(x) from e.
template <class V>
REPDL_HD_INLINE Rounded<V> sigmoid_of_exponential(V x, DoubleFloat<V> e) {
  const V one = V::set1(1.0f);
  const auto negative = sign(x);
  const V n = select(negative, e.hi, one);

  const V i = one / (one + (e.hi + e.lo));
  const V y = n * i;
  V residual = fma(-y, e.lo, fma(-y, e.hi, n - y));
  residual = select(negative, residual + e.lo, residual);
  const V margin = fma(y, V::set1(sigmoid_margin<V>), V::set1(sigmoid_floor));
  return between(y, fma(residual, i, -margin), fma(residual, i, margin));
}

template <class V>
REPDL_HD_INLINE Rounded<V> sigmoid(V x) {
  return sigmoid_of_exponential(x, sigmoid_exponential(x));
}

}  // namespace repdl::exact::pairs
