// exp(x), correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// exp(x) = 2**n * exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2, everything in
// double; a polynomial for exp(r); scaling by 2**n is exact in double, so that the
// conversion to float is the one rounding that counts, for subnormal results too.
// exp(+-0) = 1, exp(-inf) = +0, exp(inf) = inf, exp(NaN) = 0x7fc00000.
#pragma once

#include "repdl/contract/bits.hpp"
#include "repdl/exact/pairs/exp.hpp"
#include "repdl/exact/pairs/single.hpp"

namespace repdl::exact {

// exp(t) = 2**n (1 + p) for |t| <= 106: n in the low bits of `shifted`, p = exp(r) - 1.
struct ExpParts {
  double shifted, p;
};

REPDL_HD inline ExpParts exp_parts(double t) {
  const double shifted = madd(t, 0x1.71547652b82fep+0, magic);
  const double n = shifted - magic;
  double r = madd(n, -0x1.62e42fefa2p-1, t);  // exact: ln 2 to 40 bits, n to 8
  r = madd(n, -0x1.9ef35793c7673p-41, r);     // the rest of ln 2

  // exp(r) = 1 + r + r**2 q(r); tools/exact/generate.py
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
  return {shifted, madd(mul(r, r), q, r)};
}

REPDL_HD inline float exp_by_doubles(float x) {
  // Beyond these the result is inf or +0, and so it is at the bounds themselves.
  const float upper = x > 89.0f ? 89.0f : x;
  const ExpParts e = exp_parts(upper < -104.0f ? -104.0f : upper);

  // 1 + p is in (0.7, 1.5) and n in [-150, 128]: adding n to its exponent is exact.
  const float result = static_cast<float>(from_bits(to_bits(1.0 + e.p) + (to_bits(e.shifted) << 52)));
  return x == x ? result : quiet_nan();
}

// The same; +0 for what masks are made of, without doubles.
REPDL_HD inline float exp_undecided(float x) { return x < -104.0f ? 0.0f : exp_by_doubles(x); }

REPDL_HD inline float exp_by_pairs(float x) { return pairs::or_else<exp_undecided>(x, pairs::exp(pairs::Single{x})); }

REPDL_HD inline float exp(float x) { return of_target<exp_by_doubles, exp_by_pairs>(x); }

}  // namespace repdl::exact
