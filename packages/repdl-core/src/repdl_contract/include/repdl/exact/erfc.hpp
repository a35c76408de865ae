// 1 - erf(x), correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// For a = |x| it is exp(-a**2) p(t), a polynomial in t = (a - 4) / (a + 4), and 2 less that for x < 0,
// everything in double; a**2 is exact, and so is the scaling by a power of two.
// erfc(+-0) = 1, erfc(-inf) = 2, erfc(inf) = +0, erfc(NaN) = 0x7fc00000.
#pragma once

#include "repdl/exact/exp.hpp"

namespace repdl::exact {

REPDL_HD inline float erfc(float x) {
  const float size = x < 0.0f ? -x : x;
  const double a = size > 10.1f ? 10.1f : size;  // from there on the result is +0 or 2
  const double t = (a - 4.0) / (a + 4.0);
  // tools/exact/generate.py
  double p = 0x1.2a5fcd9f2546bp-32;
  p = madd(p, t, 0x1.4d672838b5203p-32);
  p = madd(p, t, -0x1.c8ff6eb43e44cp-28);
  p = madd(p, t, -0x1.45fd162a23427p-26);
  p = madd(p, t, 0x1.c11320f247f55p-26);
  p = madd(p, t, 0x1.aa495c11b1cdap-24);
  p = madd(p, t, -0x1.2feef2f43d0a5p-22);
  p = madd(p, t, -0x1.b7beff290cc33p-22);
  p = madd(p, t, 0x1.8b235e5326f36p-19);
  p = madd(p, t, -0x1.fedee485f6cb3p-20);
  p = madd(p, t, -0x1.7a6cf21c506a1p-16);
  p = madd(p, t, 0x1.4b478dfc84e09p-14);
  p = madd(p, t, -0x1.6d19ef8488d15p-16);
  p = madd(p, t, -0x1.a2f8fc52cde95p-11);
  p = madd(p, t, 0x1.0a17eb7b2d565p-8);
  p = madd(p, t, -0x1.a4ded413e2a3ap-7);
  p = madd(p, t, 0x1.0066e10496014p-5);
  p = madd(p, t, -0x1.027d5744b716ap-4);
  p = madd(p, t, 0x1.be502c36583ffp-4);
  p = madd(p, t, -0x1.506666f69e522p-3);
  p = madd(p, t, 0x1.bff01a5f90862p-3);
  p = madd(p, t, -0x1.094922737431ap-2);
  p = madd(p, t, 0x1.18932bf08e154p-3);
  const ExpParts e = exp_parts(-mul(a, a));
  const double upper = from_bits(to_bits(madd(e.p, p, p)) + (to_bits(e.shifted) << 52));
  float result = static_cast<float>(x < 0.0f ? 2.0 - upper : upper);
  result = x == -0x1.d93ec4p-17f ? 0x1.00010ap+0f : result;  // 0xb76c9f62, too near the midpoint of two floats
  return x == x ? result : quiet_nan();
}

}  // namespace repdl::exact
