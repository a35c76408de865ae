// exp(x), correctly rounded to float: proven on all inputs by tools/exact/prove.py.
//
// exp(x) = 2**n * exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2, everything in
// double; a polynomial for exp(r); scaling by 2**n is exact in double, so that the
// conversion to float is the one rounding that counts, for subnormal results too.
// exp(+-0) = 1, exp(-inf) = +0, exp(inf) = inf, exp(NaN) = 0x7fc00000.
#pragma once

#include "repdl/exact/bits.hpp"

namespace repdl::exact {

REPDL_HD inline float exp(float x) {
  // Beyond these the result is inf or +0, and so it is at the bounds themselves.
  const float upper = x > 89.0f ? 89.0f : x;
  const double t = upper < -104.0f ? -104.0f : upper;

  const double shifted = madd(t, 0x1.71547652b82fep+0, magic);
  const double n = shifted - magic;
  double r = madd(n, -0x1.62e42fefap-1, t);         // exact: ln 2 to 33 bits times n
  r = madd(n, -0x1.cf79abc9e3b3ap-40, r);           // the rest of ln 2

  // exp(r) = 1 + r + r**2 q(r); tools/exact/generate.py
  double q = 0x1.afff72a2ab51dp-26;
EXPCOEF
  const double y = 1.0 + madd(r * r, q, r);
  const double scaled = y * from_bits((to_bits(shifted) << 52) + (std::int64_t{1023} << 52));
  const float result = static_cast<float>(scaled);
  return x == x ? result : quiet_nan();
}

}  // namespace repdl::exact
