// 1 / (1 + exp(-x)), correctly rounded to float: proven on all 2**32 arguments by
// tools/exact/prove.py.
//
// 1 / (2 + e) with e = exp(-x) - 1 in double; subnormal results are normal as doubles. Near
// 0 it is 1/2 + x/4 - x**3/48 + ..., and many 1/2 + x/4 are midpoints of two floats: a tail
// too small for a double then decides, and the nudge towards 1/2 stands for it.
// sigmoid(+-0) = 1/2, sigmoid(-inf) = +0, sigmoid(inf) = 1, sigmoid(NaN) = 0x7fc00000.
#pragma once

#include "repdl/exact/expm1.hpp"
#include "repdl/exact/pairs/sigmoid.hpp"
#include "repdl/exact/pairs/single.hpp"

namespace repdl::exact {

REPDL_HD inline float sigmoid_by_doubles(float x) {
  // Beyond these the result is 1 or +0, and so it is at the bounds themselves.
  const float upper = x > 40.0f ? 40.0f : x;
  const double t = upper < -105.0f ? -105.0f : upper;
  const double y = 1.0 / (2.0 + expm1_double(-t));

  double near_half = 0.5 + mul(t, madd(mul(t, t), -0x1.5555555555555p-6, 0.25));
  const double nudge = t > 0.0 ? -0x1p-52 : 0x1p-52;
  const double odd = near_half + nudge;
  near_half = (to_bits(near_half) & 0x1fffffffu) == 0x10000000u ? odd : near_half;
  const double left = t > -0x1p-10 ? near_half : y;
  float result = static_cast<float>(t < 0x1p-10 ? left : y);
  result = x == -0x1.250c02p-10f ? 0x1.ffb6bep-2f : result;  // 0xba928601, the same just outside
  return x == x ? result : quiet_nan();
}

REPDL_HD inline float sigmoid_by_pairs(float x) {
  return pairs::or_else<sigmoid_by_doubles>(x, pairs::sigmoid(pairs::Single{x}));
}

REPDL_HD inline float sigmoid(float x) { return of_target<sigmoid_by_doubles, sigmoid_by_pairs>(x); }

}  // namespace repdl::exact
