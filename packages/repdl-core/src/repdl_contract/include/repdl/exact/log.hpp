// log(x), correctly rounded to float: proven on all 2**32 arguments by tools/exact/prove.py.
//
// log(x) = n ln 2 + log(1 + f) with x = 2**n (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)),
// everything in double; with s = f / (2 + f), log(1 + f) = 2 atanh(s), and R is a
// polynomial for 2 (atanh(s) - s) / s. Subnormal arguments are normal as doubles.
// log(1) = +0, log(+-0) = -inf, log(inf) = inf, log(x < 0) = log(NaN) = 0x7fc00000.
#pragma once

#include "repdl/exact/bits.hpp"

namespace repdl::exact {

REPDL_HD inline float log(float x) {
  constexpr std::uint64_t one = 0x3ff0000000000000u;
  constexpr std::uint64_t root = 0x3fe6a09e667f3bcdu;  // sqrt(1/2)
  constexpr std::uint64_t two52 = 0x4330000000000000u;

  // shifted = x / sqrt(1/2) in the exponent: biased n above, the offset of m below.
  const std::uint64_t shifted = to_bits(static_cast<double>(x)) + (one - root);
  const double n = from_bits(two52 | (shifted >> 52)) - (0x1p+52 + 1023.0);
  const double f = from_bits((shifted & 0x000fffffffffffffu) + root) - 1.0;

  // R(z) = z poly(z), z = s**2; tools/exact/generate.py
  const double s = f / (2.0 + f);
  const double z = s * s;
  double p = 0x1.0c04595972ab8p-3;
  p = madd(p, z, 0x1.0fbe83c2cbcf3p-3);
  p = madd(p, z, 0x1.3b1c360763b8ap-3);
  p = madd(p, z, 0x1.745cf901605f7p-3);
  p = madd(p, z, 0x1.c71c720160b47p-3);
  p = madd(p, z, 0x1.2492492476c87p-2);
  p = madd(p, z, 0x1.9999999999a38p-2);
  p = madd(p, z, 0x1.5555555555555p-1);
  const double half = 0.5 * f * f;
  const double tail = half - s * madd(z, p, half);  // log(1 + f) = f - tail

  // high + low = n ln 2 + f without error but that of ln 2: |n ln 2| > |f|, or n = 0.
  const double product = n * 0x1.62e42fefa2p-1;      // exact: ln 2 to 40 bits, n to 8
  const double high = product + f;
  const double low = madd(n, 0x1.9ef35793c7673p-41, f - (high - product));  // the rest of ln 2
  float result = static_cast<float>(high + (low - tail));

  // The five arguments for which the double nearest to log(x) is the midpoint of two floats
  // and goes to the even one, the wrong one.
  result = x == 0x1.827a74p-7f ? -0x1.1c2b1ep+2f : result;   // 0x3c413d3a
  result = x == 0x1.2f1fd6p+3f ? 0x1.1fcbcep+1f : result;    // 0x41178feb
  result = x == 0x1.bacb4ap+25f ? 0x1.1e0696p+4f : result;   // 0x4c5d65a5
  result = x == 0x1.b121a6p+76f ? 0x1.a9a3f2p+5f : result;   // 0x65d890d3
  result = x == 0x1.6351d8p+95f ? 0x1.08b512p+6f : result;   // 0x6f31a8ec
  result = x == 0.0f ? -infinity() : result;
  result = x == infinity() ? x : result;
  return x >= 0.0f ? result : quiet_nan();
}

}  // namespace repdl::exact
