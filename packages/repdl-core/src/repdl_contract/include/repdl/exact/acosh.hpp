// acosh(x), correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// acosh(x) = log(1 + (t + sqrt(2 t + t**2))) with t = x - 1, everything in double.
// acosh(1) = +0, acosh(inf) = inf; of x < 1 and NaN 0x7fc00000.
#pragma once

#include <cmath>

#include "repdl/exact/logarithm.hpp"

namespace repdl::exact {

REPDL_HD inline float acosh(float x) {
  const double t = double{x} - 1.0;
  float result = static_cast<float>(log1p_double(t + std::sqrt(mul(t, t + 2.0))));
  // The two arguments, of log's 2 x, for which the double is too near the midpoint of two floats.
  result = x == 0x1.b121a6p+75f ? 0x1.a9a3f2p+5f : result;  // 0x655890d3
  result = x == 0x1.6351d8p+94f ? 0x1.08b512p+6f : result;  // 0x6eb1a8ec
  result = x == infinity() ? x : result;
  return x >= 1.0f ? result : quiet_nan();
}

}  // namespace repdl::exact
