// log(x), correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// log(x) = n ln 2 + log(1 + f) with x = 2**n (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)),
// everything in double; with s = f / (2 + f), log(1 + f) = 2 atanh(s), and R is a
// polynomial for 2 (atanh(s) - s) / s. Subnormal arguments are normal as doubles.
// log(1) = +0, log(+-0) = -inf, log(inf) = inf, log(x < 0) = log(NaN) = 0x7fc00000.
#pragma once

#include "repdl/exact/logarithm.hpp"
#include "repdl/exact/pairs/log.hpp"
#include "repdl/exact/pairs/single.hpp"

namespace repdl::exact {

REPDL_HD inline float log_by_doubles(float x) {
  const Binade b = binade(x);
  const double tail = log_tail(b.f);

  // high + low = n ln 2 + f without error but that of ln 2: |n ln 2| > |f|, or n = 0.
  const double product = mul(b.n, 0x1.62e42fefa2p-1);  // exact: ln 2 to 40 bits, n to 8
  const double high = product + b.f;
  const double low = madd(b.n, 0x1.9ef35793c7673p-41, b.f - (high - product));  // the rest of ln 2
  float result = static_cast<float>(high + (low - tail));

  // The five arguments for which the double nearest to log(x) is the midpoint of two floats
  // and goes to the even one, the wrong one.
  result = x == 0x1.827a74p-7f ? -0x1.1c2b1ep+2f : result;  // 0x3c413d3a
  result = x == 0x1.2f1fd6p+3f ? 0x1.1fcbcep+1f : result;   // 0x41178feb
  result = x == 0x1.bacb4ap+25f ? 0x1.1e0696p+4f : result;  // 0x4c5d65a5
  result = x == 0x1.b121a6p+76f ? 0x1.a9a3f2p+5f : result;  // 0x65d890d3
  result = x == 0x1.6351d8p+95f ? 0x1.08b512p+6f : result;  // 0x6f31a8ec
  result = x == 0.0f ? -infinity() : result;
  result = x == infinity() ? x : result;
  return x >= 0.0f ? result : quiet_nan();
}

REPDL_HD inline float log_by_pairs(float x) { return pairs::or_else<log_by_doubles>(x, pairs::log(pairs::Single{x})); }

REPDL_HD inline float log(float x) { return of_target<log_by_doubles, log_by_pairs>(x); }

}  // namespace repdl::exact
