// sigmoid of a whole Vec: the bits of repdl/exact/sigmoid.hpp, most of the time without doubles.
//
//   1 / d, d = 1 + exp(-x) as d + d_rest, a float and its correction
//   i = 1 / d rounded, then 1 / (d + d_rest) = i + i (1 - i d - i d_rest), nearly
//
// exp_vec.hpp says how exp(-x) is had with a correction, and how results are decided.
#pragma once

#include "exp_vec.hpp"
#include "repdl/exact/sigmoid.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

inline Vec sigmoid(Vec x) {
  const Vec one = Vec::set1(1.0f), bound = Vec::set1(40.0f);  // 1 from there on
  const ExpVecParts e = exp_vec_parts(Vec::zero() - select(bound < x, bound, x));
  const Vec scale = power(e.shifted), high = e.s * scale, low = e.rest * scale;

  const Vec sum = high + one, part = sum - high;
  const Vec tail = ((high - (sum - part)) + (one - part)) + low;  // up to 2**-12 of the sum
  const Vec d = sum + tail, d_rest = tail - (d - sum);
  const Vec i = one / d;
  const Vec rest = i * fma(Vec::zero() - i, d_rest, fma(Vec::zero() - i, d, one));

  // The error of exp, relative, and 2**-44 or less of the rest.
  const Vec margin = i * Vec::set1(exp_margin * 1.25f);
  return rounded_or<exact::sigmoid>(x, i, rest, margin, Vec::set1(-70.0f) < x);  // below, rest underflows
}

#else

inline Vec sigmoid(Vec x) { return each_of<exact::sigmoid>(x); }

#endif

}  // namespace repdl::cpu
