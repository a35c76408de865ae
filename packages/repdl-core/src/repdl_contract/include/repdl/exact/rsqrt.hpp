// 1 / sqrt(x), correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// Root and quotient in double, two roundings near 2**-53, and then the one to float.
// rsqrt(+-0) = +-inf, rsqrt(inf) = +0, rsqrt(x < 0) = rsqrt(NaN) = 0x7fc00000.
#pragma once

#include <cmath>

#include "repdl/contract/bits.hpp"
#include "repdl/exact/pairs/rsqrt.hpp"
#include "repdl/exact/pairs/single.hpp"

namespace repdl::exact {

REPDL_HD inline float rsqrt_by_doubles(float x) {
  const float result = static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
  return x >= 0.0f ? result : quiet_nan();
}

REPDL_HD inline float rsqrt_by_pairs(float x) {
  return pairs::or_else<rsqrt_by_doubles>(x, pairs::rsqrt(pairs::Single{x}));
}

REPDL_HD inline float rsqrt(float x) { return of_target<rsqrt_by_doubles, rsqrt_by_pairs>(x); }

}  // namespace repdl::exact
