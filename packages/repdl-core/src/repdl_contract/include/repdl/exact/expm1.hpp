// exp(x) - 1, correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// x = n ln 2 + r as in exp.hpp, p = exp(r) - 1 = r + r**2 q(r), and
// exp(x) - 1 = (2**n - 1) + 2**n p. Where n != 0 the sum is at least a third of its terms in
// magnitude, and where n = 0 it is p itself, so that the relative error stays near 2**-52.
// expm1(+-0) = +-0, expm1(-inf) = -1, expm1(inf) = inf, expm1(NaN) = 0x7fc00000.
#pragma once

#include "repdl/exact/exp.hpp"
#include "repdl/exact/pairs/expm1.hpp"
#include "repdl/exact/pairs/single.hpp"

namespace repdl::exact {

// exp(t) - 1 in double for |t| <= 106; +0 for either zero. tanh and sigmoid use it too.
REPDL_HD inline double expm1_double(double t) {
  const ExpParts e = exp_parts(t);
  const double scale = from_bits((to_bits(e.shifted) << 52) + 0x3ff0000000000000u);  // 2**n
  return madd(scale, e.p, scale - 1.0);
}

REPDL_HD inline float expm1_by_doubles(float x) {
  // Beyond these the result is inf or -1, and so it is at the bounds themselves.
  const float upper = x > 89.0f ? 89.0f : x;
  const double t = upper < -40.0f ? -40.0f : upper;
  float result = static_cast<float>(expm1_double(t));
  result = x == 0.0f ? x : result;
  return x == x ? result : quiet_nan();
}

REPDL_HD inline float expm1_by_pairs(float x) {
  return pairs::or_else<expm1_by_doubles>(x, pairs::expm1(pairs::Single{x}));
}

REPDL_HD inline float expm1(float x) { return of_target<expm1_by_doubles, expm1_by_pairs>(x); }

}  // namespace repdl::exact
