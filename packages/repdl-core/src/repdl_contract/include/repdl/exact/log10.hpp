// log(x) to base 10, correctly rounded to float: proven on all 2**32 arguments by
// tools/exact/prove.py.
//
// x = 2**n (1 + f), and the polynomial of log.hpp; everything in double.
// log10(1) = +0, log10(+-0) = -inf, log10(inf) = inf, log10(x < 0) = log10(NaN) = 0x7fc00000.
#pragma once

#include "repdl/exact/logarithm.hpp"
#include "repdl/exact/pairs/log.hpp"
#include "repdl/exact/pairs/single.hpp"

namespace repdl::exact {

REPDL_HD inline float log10_by_doubles(float x) {
  const Binade b = binade(x);
  const double tail = log_tail(b.f);

  // n log10(2) + (f - tail) / ln 10
  const double high = b.f - tail;
  const double low = (b.f - high) - tail;
  const double product = mul(high, 0x1.bcb7b1526e50ep-2);
  const double rest = madd(low, 0x1.bcb7b1526e50ep-2, mul(high, 0x1.95355baaafad3p-57));
  const double whole = mul(b.n, 0x1.34413509f6p-2);  // exact: log10(2) to 40 bits, n to 8
  float result = static_cast<float>(whole + (product + madd(b.n, 0x1.9fef311f12b36p-42, rest)));

  // The argument for which the double nearest to log10(x) is the midpoint of two floats.
  result = x == 0x1.fddcf4p-98f ? -0x1.d33a46p+4f : result;  // 0x0efeee7a

  result = x == 0.0f ? -infinity() : result;
  result = x == infinity() ? x : result;
  return x >= 0.0f ? result : quiet_nan();
}

REPDL_HD inline float log10_by_pairs(float x) {
  return pairs::or_else<log10_by_doubles>(x, pairs::log10(pairs::Single{x}));
}

REPDL_HD inline float log10(float x) { return of_target<log10_by_doubles, log10_by_pairs>(x); }

}  // namespace repdl::exact
