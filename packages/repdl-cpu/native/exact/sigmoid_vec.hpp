// sigmoid and x sigmoid(x) of a whole Vec: the bits of repdl/exact/sigmoid.hpp, most of the time
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

// The error of exp relative to t (2**-35.39 was measured, 2**-33.29 with 16 entries), and 2**-44 or less of
// the rest.
constexpr float sigmoid_margin = exp_margin * 0.76f;

// Arguments below sigmoid_end are taken for it, so that nothing is subnormal, not even the square of the
// result. There `floor` is half an ulp of the result or more, and nothing is decided.
constexpr float sigmoid_end = -43.0f, sigmoid_floor = 0x1p-86f;

[[gnu::always_inline]] inline Rounded sigmoid_rounded(Vec x) {
  const Vec one = Vec::set1(1.0f);
  const ExpVecParts parts = exp_vec_parts(larger(Vec::set1(sigmoid_end), minus_absolute(x)));
  const FloatSum e = parts.times(scaled(parts.t, parts.k, parts.shifted));
  const Vec n = select(sign(x), e.s, one), n_rest = select(sign(x), e.rest, Vec::zero());

  const Vec i = one / (one + (e.s + e.rest));
  const Vec y = n * i;
  const Vec residual = fma(-y, e.s, n - y) + fma(-y, e.rest, n_rest);
  return rounded({y, residual * i}, fma(y, Vec::set1(sigmoid_margin), Vec::set1(sigmoid_floor)));
}

// x sigmoid(x), which is NaN only for NaN and -inf: both undecided.
inline float silu_one(float x) { return canonical(x * exact::sigmoid(x)); }

[[gnu::always_inline]] inline Vec sigmoid(Vec x) {
  const Rounded y = sigmoid_rounded(x);
  return or_else<exactly<exact::sigmoid>>(x, y.value, y.decided);
}

[[gnu::always_inline]] inline Vec silu(Vec x) {
  const Rounded y = sigmoid_rounded(x);
  return or_else<exactly<silu_one>>(x, x * y.value, y.decided);
}

#else

inline Vec sigmoid(Vec x) { return each_of<exact::sigmoid>(x); }
inline Vec silu(Vec x) { return canonical(x * sigmoid(x)); }

#endif

}  // namespace repdl::cpu
