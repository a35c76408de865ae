// log(x) to base 2, correctly rounded to float: proven on all 2**32 arguments by
// tools/exact/prove.py.
//
// x = 2**n (1 + f), and the polynomial of log.hpp; everything in double.
// log2(1) = +0, log2(+-0) = -inf, log2(inf) = inf, log2(x < 0) = log2(NaN) = 0x7fc00000.
#pragma once

#include "repdl/exact/logarithm.hpp"
#include "repdl/exact/pairs/log.hpp"
#include "repdl/exact/pairs/single.hpp"

namespace repdl::exact {

REPDL_HD inline float log2_by_doubles(float x) {
  const Binade b = binade(x);
  const double tail = log_tail(b.f);

  // n + (f - tail) / ln 2, where 1 / ln 2 = L + l.
  const double high = b.f - tail;
  const double low = (b.f - high) - tail;
  const double product = mul(high, 0x1.71547652b82fep+0);
  const double rest = madd(low, 0x1.71547652b82fep+0, mul(high, 0x1.777d0ffda0d24p-56));
  float result = static_cast<float>(b.n + (product + rest));

  result = x == 0.0f ? -infinity() : result;
  result = x == infinity() ? x : result;
  return x >= 0.0f ? result : quiet_nan();
}

REPDL_HD inline float log2_by_pairs(float x) {
  return pairs::or_else<log2_by_doubles>(x, pairs::log2(pairs::Single{x}));
}

REPDL_HD inline float log2(float x) { return of_target<log2_by_doubles, log2_by_pairs>(x); }

}  // namespace repdl::exact
