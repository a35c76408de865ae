// atanh(x), correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// atanh(a) = log(1 + 2 a / (1 - a)) / 2 for a = |x|, everything in double.
// atanh(+-0) = +-0, atanh(+-1) = +-inf; of |x| > 1 and NaN 0x7fc00000.
#pragma once

#include "repdl/exact/logarithm.hpp"

namespace repdl::exact {

REPDL_HD inline float atanh(float x) {
  const double a = x < 0.0f ? -x : x;
  float size = static_cast<float>(mul(0.5, log1p_double(mul(2.0, a) / (1.0 - a))));
  size = a == 1.0 ? infinity() : size;
  float result = x < 0.0f ? -size : size;
  result = x == 0.0f ? x : result;
  return a <= 1.0 ? result : quiet_nan();
}

}  // namespace repdl::exact
