// exp(x) - 1, correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// x = n ln 2 + r as in exp.hpp, p = exp(r) - 1 = r + r**2 q(r), and
// exp(x) - 1 = (2**n - 1) + 2**n p. Where n != 0 the sum is at least a third of its terms in
// magnitude, and where n = 0 it is p itself, so that the relative error stays near 2**-52.
// expm1(+-0) = +-0, expm1(-inf) = -1, expm1(inf) = inf, expm1(NaN) = 0x7fc00000.
#pragma once

#include "repdl/exact/bits.hpp"

namespace repdl::exact {

// exp(t) - 1 in double for |t| <= 106; +0 for either zero. tanh and sigmoid use it too.
REPDL_HD inline double expm1_double(double t) {
  const double shifted = madd(t, 0x1.71547652b82fep+0, magic);
  const double n = shifted - magic;
  double r = madd(n, -0x1.62e42fefa2p-1, t);   // exact: ln 2 to 40 bits, n to 8
  r = madd(n, -0x1.9ef35793c7673p-41, r);      // the rest of ln 2

  // The polynomial of exp.hpp; tools/exact/generate.py
  double q = 0x1.1f730349868cep-29;
  q = madd(q, r, 0x1.af4de97ca4194p-26);
  q = madd(q, r, 0x1.27e4db646b17ep-22);
  q = madd(q, r, 0x1.71de0231960ebp-19);
  q = madd(q, r, 0x1.a01a01a6d889cp-16);
  q = madd(q, r, 0x1.a01a01abe7fe1p-13);
  q = madd(q, r, 0x1.6c16c16c162d4p-10);
  q = madd(q, r, 0x1.11111111100dcp-7);
  q = madd(q, r, 0x1.5555555555556p-5);
  q = madd(q, r, 0x1.5555555555557p-3);
  q = madd(q, r, 0x1p-1);
  const double p = madd(r * r, q, r);

  const double scale = from_bits((to_bits(shifted) << 52) + 0x3ff0000000000000u);  // 2**n
  return madd(scale, p, scale - 1.0);
}

REPDL_HD inline float expm1(float x) {
  // Beyond these the result is inf or -1, and so it is at the bounds themselves.
  const float upper = x > 89.0f ? 89.0f : x;
  const double t = upper < -40.0f ? -40.0f : upper;
  float result = static_cast<float>(expm1_double(t));
  result = x == 0.0f ? x : result;
  return x == x ? result : quiet_nan();
}

}  // namespace repdl::exact
