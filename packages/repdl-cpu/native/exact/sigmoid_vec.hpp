// sigmoid of a whole Vec: the bits of repdl/exact/sigmoid.hpp, most of the time
// without doubles.
//
//   e = exp(-|x|) as s + rest (exp_vec.hpp); sigmoid(x) = n / (1 + e), n = 1 or, for negative x, e
//   i = 1 / (1 + e) and y = n i with s for e in n, rounded
//   n / (1 + e) = y + i (n - y (1 + e)), nearly; n - y is exact
//
// simd_mask.hpp says how results are decided.
#pragma once

#include "exact/exp_vec.hpp"
#include "repdl/exact/sigmoid.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

// The largest relative error that was measured, and a little.
constexpr float sigmoid_margin = table_entries == 32 ? 0x1.ap-36f : 0x1.bp-34f;

// Arguments below sigmoid_end are taken for it, so that nothing is subnormal, not even the square of the
// result. There `floor` is half an ulp of the result or more, and nothing is decided.
constexpr float sigmoid_end = -43.0f, sigmoid_floor = 0x1p-86f;

[[gnu::always_inline]] inline Rounded sigmoid_rounded(Vec x) {
  const Vec one = Vec::set1(1.0f);
  const ExpVecParts parts =
      exp_vec_parts<exp_nearest, exp_nearest_rest<true>>(larger(Vec::set1(sigmoid_end), minus_absolute(x)));
  const FloatSum e = parts.times(scaled(parts.t, parts.k, parts.shifted));
  const Mask negative = sign(x);
  const Vec n = select(negative, e.s, one);

  const Vec i = one / (one + (e.s + e.rest));
  const Vec y = n * i;
  Vec residual = fma(-y, e.rest, fma(-y, e.s, n - y));
  residual = select(negative, residual + e.rest, residual);
  const Vec margin = fma(y, Vec::set1(sigmoid_margin), Vec::set1(sigmoid_floor));
  return between(y, fma(residual, i, -margin), fma(residual, i, margin));
}

template <class V>
[[gnu::always_inline]] inline V sigmoid(V given) {
  const Vec x = value_of(given);
  const Rounded y = sigmoid_rounded(x);
  return or_else<exactly<exact::sigmoid>>(given, y.value, y.decided);
}

#else

inline Vec sigmoid(Vec x) { return each_of<exact::sigmoid>(x); }

#endif

}  // namespace repdl::cpu
