// 2**x, correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// x = n + r with n = round(x), 2**r = 1 + r q(r), everything in double; n is added to the
// exponent of the double, so that subnormal results are rounded once too.
// exp2(+-0) = 1, exp2(-inf) = +0, exp2(inf) = inf, exp2(NaN) = 0x7fc00000.
#pragma once

#include "repdl/contract/bits.hpp"
#include "repdl/exact/pairs/exp2.hpp"
#include "repdl/exact/pairs/single.hpp"

namespace repdl::exact {

REPDL_HD inline float exp2_by_doubles(float x) {
  // At these and beyond the result is inf or +0.
  const float upper = x > 128.0f ? 128.0f : x;
  const double t = upper < -151.0f ? -151.0f : upper;
  const double shifted = t + magic;
  const double r = t - (shifted - magic);  // exact

  // tools/exact/generate.py
  double q = 0x1.e9d3fe3952179p-32;
  q = madd(q, r, 0x1.e6063f7217bc6p-28);
  q = madd(q, r, 0x1.b524fae627834p-24);
  q = madd(q, r, 0x1.62bfd47773353p-20);
  q = madd(q, r, 0x1.ffcbfc670dcd4p-17);
  q = madd(q, r, 0x1.430913096fd9fp-13);
  q = madd(q, r, 0x1.5d87fe78a5276p-10);
  q = madd(q, r, 0x1.3b2ab6fba1ddap-7);
  q = madd(q, r, 0x1.c6b08d704a0c2p-5);
  q = madd(q, r, 0x1.ebfbdff82c598p-3);
  q = madd(q, r, 0x1.62e42fefa39efp-1);
  const double y = madd(r, q, 1.0);

  // y is in [0.7, 1.5) and n in [-151, 128]: adding n to the exponent of y is exact.
  float result = static_cast<float>(from_bits(to_bits(y) + (to_bits(shifted) << 52)));

  // The two arguments for which the double nearest to 2**x is the midpoint of two floats.
  result = x == 0x1.853a6ep-9f ? 0x1.00870ap+0f : result;   // 0x3b429d37
  result = x == -0x1.e7526ep-6f ? 0x1.f58d62p-1f : result;  // 0xbcf3a937
  return x == x ? result : quiet_nan();
}

REPDL_HD inline float exp2_by_pairs(float x) {
  return pairs::or_else<exp2_by_doubles>(x, pairs::exp2(pairs::Single{x}));
}

REPDL_HD inline float exp2(float x) { return of_target<exp2_by_doubles, exp2_by_pairs>(x); }

}  // namespace repdl::exact
