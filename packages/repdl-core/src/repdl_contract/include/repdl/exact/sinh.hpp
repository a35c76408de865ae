// sinh(x) and cosh(x), correctly rounded to float: proven on all 2**32 arguments by
// tools/exact/prove.py.
//
// With e = exp(|x|) - 1, sinh(|x|) = (e + e / (e + 1)) / 2 and cosh(x) = 1 + e**2 / (2 (e + 1)),
// everything in double: sums of terms of one sign.
// sinh(+-0) = +-0, cosh(+-0) = 1, sinh(+-inf) = +-inf, cosh(+-inf) = inf; of NaN 0x7fc00000.
#pragma once

#include "repdl/exact/expm1.hpp"

namespace repdl::exact {

// exp(|x|) - 1, of 90 where |x| is more: both results are inf there.
REPDL_HD inline double expm1_of_size(float x) {
  const float a = x < 0.0f ? -x : x;
  return expm1_double(a > 90.0f ? 90.0f : a);
}

REPDL_HD inline float sinh(float x) {
  const double e = expm1_of_size(x);
  float size = static_cast<float>(mul(0.5, e + e / (e + 1.0)));
  // 0x3a1285ff and its negative, too near the midpoint of two floats
  size = x == 0x1.250bfep-11f || x == -0x1.250bfep-11f ? 0x1.250bfep-11f : size;
  float result = x < 0.0f ? -size : size;
  result = x == 0.0f ? x : result;
  return x == x ? result : quiet_nan();
}

REPDL_HD inline float cosh(float x) {
  const double e = expm1_of_size(x);
  const float result = static_cast<float>(1.0 + mul(e, e) / mul(2.0, e + 1.0));
  return x == x ? result : quiet_nan();
}

}  // namespace repdl::exact
