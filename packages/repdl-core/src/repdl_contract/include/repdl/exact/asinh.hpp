// asinh(x), correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// asinh(a) = log(1 + (a + a**2 / (1 + sqrt(1 + a**2)))) for a = |x|, everything in double.
// asinh(+-0) = +-0, asinh(+-inf) = +-inf, asinh(NaN) = 0x7fc00000.
#pragma once

#include <cmath>

#include "repdl/exact/logarithm.hpp"

namespace repdl::exact {

REPDL_HD inline float asinh(float x) {
  const double a = x < 0.0f ? -x : x;
  const double square = mul(a, a);  // exact
  float size = static_cast<float>(log1p_double(a + square / (1.0 + std::sqrt(1.0 + square))));
  // The three arguments, of log's 2 x, for which the double is too near the midpoint of two floats.
  size = a == 0x1.bacb4ap+24 ? 0x1.1e0696p+4f : size;  // 0x4bdd65a5
  size = a == 0x1.b121a6p+75 ? 0x1.a9a3f2p+5f : size;  // 0x655890d3
  size = a == 0x1.6351d8p+94 ? 0x1.08b512p+6f : size;  // 0x6eb1a8ec
  float result = x < 0.0f ? -size : size;
  result = x == 0.0f || a == infinity() ? x : result;
  return x == x ? result : quiet_nan();
}

}  // namespace repdl::exact
