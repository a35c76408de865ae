// What the logarithms share: x = 2**n (1 + f) and the polynomial for log(1 + f).
#pragma once

#include "repdl/contract/bits.hpp"

namespace repdl::exact {

// x = 2**n (1 + f) without error, 1 + f in [sqrt(1/2), sqrt(2)); x is positive and normal.
struct Binade {
  double n, f;
};

REPDL_HD inline Binade binade(double x) {
  constexpr std::uint64_t one = 0x3ff0000000000000u;
  constexpr std::uint64_t root = 0x3fe6a09e667f3bcdu;  // sqrt(1/2)
  constexpr std::uint64_t two52 = 0x4330000000000000u;
  // shifted = x / sqrt(1/2) in the exponent: biased n above, the offset of 1 + f below.
  const std::uint64_t shifted = to_bits(x) + (one - root);
  const double n = from_bits(two52 | (shifted >> 52)) - (0x1p+52 + 1023.0);
  return {n, from_bits((shifted & 0x000fffffffffffffu) + root) - 1.0};
}

// The small part of log(1 + f) = f - tail: with s = f / (2 + f) it is
// 2 atanh(s) = f - (f**2/2 - s (f**2/2 + R)), R = z poly(z), z = s**2.
REPDL_HD inline double log_tail(double f) {
  // tools/exact/generate.py log
  const double s = f / (2.0 + f);
  const double z = mul(s, s);
  double p = 0x1.0c04595972ab8p-3;
  p = madd(p, z, 0x1.0fbe83c2cbcf3p-3);
  p = madd(p, z, 0x1.3b1c360763b8ap-3);
  p = madd(p, z, 0x1.745cf901605f7p-3);
  p = madd(p, z, 0x1.c71c720160b47p-3);
  p = madd(p, z, 0x1.2492492476c87p-2);
  p = madd(p, z, 0x1.9999999999a38p-2);
  p = madd(p, z, 0x1.5555555555555p-1);
  const double half = mul(mul(0.5, f), f);
  return half - mul(s, madd(z, p, half));
}

// log(1 + x) in double, of x > -1. Where n = 0, f is x itself, however small; elsewhere 1 + x is exact, or so large
// that its rounding does not matter.
REPDL_HD inline double log1p_double(double x) {
  const Binade b = binade(1.0 + x);
  const double f = b.n == 0.0 ? x : b.f;
  const double tail = log_tail(f);

  // high + low = n ln 2 + f without error but that of ln 2: |n ln 2| > |f|, or n = 0.
  const double product = mul(b.n, 0x1.62e42fefa2p-1);  // exact: ln 2 to 40 bits, n to 8
  const double high = product + f;
  const double low = madd(b.n, 0x1.9ef35793c7673p-41, f - (high - product));  // the rest of ln 2
  return high + (low - tail);
}

}  // namespace repdl::exact
