// asin(x) and acos(x), correctly rounded to float: proven on all 2**32 arguments by
// tools/exact/prove.py.
//
// asin(s) = s + s**3 p(s**2) for s = |x| up to 1/2; beyond, asin(|x|) = pi / 2 - 2 asin(s) with
// s = sqrt((1 - |x|) / 2), everything in double. acos(x) = pi / 2 - asin(x), and beyond 1/2 2 asin(s) or
// pi - 2 asin(s), which do not cancel.
// asin(+-0) = +-0, acos(1) = +0; of |x| > 1 and NaN 0x7fc00000.
#pragma once

#include <cmath>

#include "repdl/contract/bits.hpp"

namespace repdl::exact {

constexpr double half_pi = 0x1.921fb54442d18p+0, half_pi_rest = 0x1.1a62633145c07p-54;

// asin(s) for s = |x|, or for s = sqrt((1 - |x|) / 2) where |x| > 1/2.
REPDL_HD inline double asin_part(double a) {
  const double z = a > 0.5 ? mul(0.5, 1.0 - a) : mul(a, a);
  const double s = a > 0.5 ? std::sqrt(z) : a;
  // tools/exact/generate.py
  double p = 0x1.e5336d3c9f48bp-6;
  p = madd(p, z, -0x1.3b50757ac7f76p-6);
  p = madd(p, z, 0x1.406bebb653912p-6);
  p = madd(p, z, 0x1.8ef81e87a123cp-9);
  p = madd(p, z, 0x1.3164456bbeec3p-7);
  p = madd(p, z, 0x1.3b498006cbcc7p-7);
  p = madd(p, z, 0x1.7b028a13eab06p-7);
  p = madd(p, z, 0x1.c990ac55b530cp-7);
  p = madd(p, z, 0x1.1c4efce873222p-6);
  p = madd(p, z, 0x1.6e8ba123ad37cp-6);
  p = madd(p, z, 0x1.f1c71c7a53dc4p-6);
  p = madd(p, z, 0x1.6db6db6dac1c7p-5);
  p = madd(p, z, 0x1.3333333333388p-4);
  p = madd(p, z, 0x1.5555555555555p-3);
  return madd(mul(s, z), p, s);
}

REPDL_HD inline float asin(float x) {
  const double a = x < 0.0f ? -x : x;
  const double part = asin_part(a);
  const float size = static_cast<float>(a > 0.5 ? half_pi - (mul(2.0, part) - half_pi_rest) : part);
  float result = x < 0.0f ? -size : size;
  result = x == 0.0f ? x : result;
  return a <= 1.0 ? result : quiet_nan();
}

REPDL_HD inline float acos(float x) {
  const double a = x < 0.0f ? -x : x;
  const double part = asin_part(a);
  const double twice = mul(2.0, part);
  const double far = x < 0.0f ? mul(2.0, half_pi) - (twice - mul(2.0, half_pi_rest)) : twice;
  const double near = half_pi - ((x < 0.0f ? -part : part) - half_pi_rest);
  float result = static_cast<float>(a > 0.5 ? far : near);
  // The two arguments for which the double is too near the midpoint of two floats.
  result = x == 0x1.110b46p-26f ? 0x1.921fb6p+0f : result;  // 0x328885a3
  result = x == 0x1.04c444p-12f ? 0x1.920f6ap+0f : result;  // 0x39826222
  return a <= 1.0 ? result : quiet_nan();
}

}  // namespace repdl::exact
