// tanh(x), correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// tanh(x) = e / (e + 2) with e = exp(2x) - 1, everything in double: no cancellation, as
// e > -1, and the relative error of e carries over at most once.
// tanh(+-0) = +-0, tanh(+-inf) = +-1, tanh(NaN) = 0x7fc00000.
#pragma once

#include "repdl/exact/expm1.hpp"
#include "repdl/exact/pairs/single.hpp"
#include "repdl/exact/pairs/tanh.hpp"

namespace repdl::exact {

REPDL_HD inline float tanh_by_doubles(float x) {
  // Beyond these the result is 1 or -1, and so it is at the bounds themselves.
  const float upper = x > 20.0f ? 20.0f : x;
  const double t = upper < -20.0f ? -20.0f : upper;
  const double e = expm1_double(mul(2.0, t));
  float result = static_cast<float>(e / (e + 2.0));
  result = x == 0.0f ? x : result;
  return x == x ? result : quiet_nan();
}

REPDL_HD inline float tanh_by_pairs(float x) {
  return pairs::or_else<tanh_by_doubles>(x, pairs::tanh(pairs::Single{x}));
}

REPDL_HD inline float tanh(float x) { return of_target<tanh_by_doubles, tanh_by_pairs>(x); }

}  // namespace repdl::exact
