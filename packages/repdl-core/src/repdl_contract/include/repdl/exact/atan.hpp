// atan(x), correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// The angle of a point of the first quadrant is that of one turned back by pi / 2, pi / 4 or 0, so that
// its tangent t is at most sqrt(2) - 1 in magnitude, and atan(t) = t + t**3 p(t**2), everything in double.
// atan(+-0) = +-0, atan(+-inf) = +-pi / 2, atan(NaN) = 0x7fc00000.
#pragma once

#include "repdl/contract/bits.hpp"

namespace repdl::exact {

// atan(a / b) for a, b >= 0, not both 0 or both inf, with at most 24 bits each.
REPDL_HD inline double angle(double a, double b) {
  const bool steep = a > mul(0x1.3504f333f9de6p+1, b), level = !(a > mul(0x1.a827999fcef32p-2, b));  // sqrt(2) +- 1
  const double over = steep ? -b : level ? a : a - b;
  const double under = steep ? a : level ? b : a + b;
  const double t = over / under;
  const double z = mul(t, t);
  // tools/exact/generate.py
  double p = 0x1.0acd9e91a5a35p-6;
  p = madd(p, z, -0x1.1b311bb48c215p-5);
  p = madd(p, z, 0x1.74dccfb93fff0p-5);
  p = madd(p, z, -0x1.ac7a5a79b3f26p-5);
  p = madd(p, z, 0x1.e19a0bfa3eef9p-5);
  p = madd(p, z, -0x1.110e87b4357d2p-4);
  p = madd(p, z, 0x1.3b1392d519db1p-4);
  p = madd(p, z, -0x1.745d165dc9713p-4);
  p = madd(p, z, 0x1.c71c71c303dbbp-4);
  p = madd(p, z, -0x1.249249248d7dcp-3);
  p = madd(p, z, 0x1.9999999999953p-3);
  p = madd(p, z, -0x1.5555555555555p-2);
  const double small = madd(mul(t, z), p, t);
  const double turn = steep ? 0x1.921fb54442d18p+0 : level ? 0.0 : 0x1.921fb54442d18p-1;
  const double rest = steep ? 0x1.1a62633145c07p-54 : level ? 0.0 : 0x1.1a62633145c07p-55;
  return turn + (small + rest);
}

REPDL_HD inline float atan(float x) {
  const double a = x < 0.0f ? -x : x;
  float size = static_cast<float>(angle(a, 1.0));
  size = a == 0x1.1ad646p-4 ? 0x1.1a6386p-4f : size;  // 0x3d8d6b23, too near the midpoint of two floats
  float result = x < 0.0f ? -size : size;
  result = x == 0.0f ? x : result;
  return x == x ? result : quiet_nan();
}

}  // namespace repdl::exact
