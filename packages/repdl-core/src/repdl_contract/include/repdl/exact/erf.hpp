// The error function, correctly rounded to float: proven on all 2**32 arguments by
// tools/exact/prove.py.
//
// erf(x) = x p(x**2), one polynomial in x**2 - 7.703125 up to |x| = 3.925, from where on
// the result is 1; everything in double. For small x three terms of the series are more accurate.
// erf(+-0) = +-0, erf(+-inf) = +-1, erf(NaN) = 0x7fc00000.
#pragma once

#include "repdl/contract/bits.hpp"
#include "repdl/exact/pairs/erf.hpp"
#include "repdl/exact/pairs/single.hpp"

namespace repdl::exact {

REPDL_HD inline float erf_by_doubles(float x) {
  const float upper = x > 3.925f ? 3.925f : x;
  const double t = upper < -3.925f ? -3.925f : upper;
  const double z = mul(t, t);
  const double w = z - 7.703125;

  // tools/exact/generate.py
  double p = 0x1.4966ab1ec9e48p-114;
  p = madd(p, w, -0x1.3760e00e8c89bp-109);
  p = madd(p, w, 0x1.25db823f0c0d3p-105);
  p = madd(p, w, -0x1.e9a21d8dda268p-101);
  p = madd(p, w, 0x1.eed54d0362b12p-96);
  p = madd(p, w, -0x1.8bbe7aa6907e0p-91);
  p = madd(p, w, 0x1.25482424fe70dp-86);
  p = madd(p, w, -0x1.ae404be41d436p-82);
  p = madd(p, w, 0x1.30240f3fe64e9p-77);
  p = madd(p, w, -0x1.99e890368efe5p-73);
  p = madd(p, w, 0x1.07c2a94022353p-68);
  p = madd(p, w, -0x1.43d35f0095897p-64);
  p = madd(p, w, 0x1.7a5feb64ab9a2p-60);
  p = madd(p, w, -0x1.a3d4b477e47f9p-56);
  p = madd(p, w, 0x1.b961940a0898fp-52);
  p = madd(p, w, -0x1.b6ad6b529e63ep-48);
  p = madd(p, w, 0x1.9b35fcb73b68dp-44);
  p = madd(p, w, -0x1.6abfce013d27ap-40);
  p = madd(p, w, 0x1.2c8cb33390dc6p-36);
  p = madd(p, w, -0x1.d31632c8dcaf9p-33);
  p = madd(p, w, 0x1.543d2561fc632p-29);
  p = madd(p, w, -0x1.d134a48b486dap-26);
  p = madd(p, w, 0x1.2ba1d1ccf1af7p-22);
  p = madd(p, w, -0x1.6e88a938cc299p-19);
  p = madd(p, w, 0x1.afb5d7a984d0ap-16);
  p = madd(p, w, -0x1.f4820393cfe82p-13);
  p = madd(p, w, 0x1.27d6438ee0d9ep-9);
  p = madd(p, w, -0x1.7e97e57082c81p-6);
  p = madd(p, w, 0x1.70eac96ea992cp-2);
  // 2 / sqrt(pi) (1 - z / 3)
  const double small = madd(z, -0x1.812746b0379e7p-2, 0x1.20dd750429b6dp+0);
  float result = static_cast<float>(mul(t, z < 0x1p-28 ? small : p));
  // Near the midpoint of two floats: with FMA the double falls on the wrong side.
  result = x == 0x1.81d5acp-13f ? 0x1.b35e28p-13f : result;    // 0x3940ead6
  result = x == -0x1.81d5acp-13f ? -0x1.b35e28p-13f : result;  // 0xb940ead6
  return x == x ? result : quiet_nan();
}

REPDL_HD inline float erf_by_pairs(float x) { return pairs::or_else<erf_by_doubles>(x, pairs::erf(pairs::Single{x})); }

REPDL_HD inline float erf(float x) { return of_target<erf_by_doubles, erf_by_pairs>(x); }

}  // namespace repdl::exact
