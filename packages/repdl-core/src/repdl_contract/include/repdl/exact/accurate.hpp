// The exact functions of a double, rounded once, for every argument: by BigFloats (big/big_float.hpp), slowly.
//
// 256 bits for functions of one argument, whose results come within 2**-118 of an ulp of a midpoint at most (the
// published worst cases; docs/correctly-rounded-functions.md), 384 for pow and atan2. Results that are doubles or
// midpoints of two are recognised. Special values are those of the float functions; NaN is 0x7ff8000000000000.
#pragma once

#include "repdl/exact/big/erf.hpp"
#include "repdl/exact/big/trigonometric.hpp"

namespace repdl::exact::accurate {

using Big = big::BigFloat<8>;
using big::half_pi;

REPDL_HD inline double infinity() { return from_bits(0x7ff0000000000000u); }
REPDL_HD inline double nan() { return from_bits(0x7ff8000000000000u); }
REPDL_HD inline bool finite(double x) { return x - x == 0.0; }
REPDL_HD inline double size_of(double x) { return from_bits(to_bits(x) & 0x7fffffffffffffffu); }
REPDL_HD inline double with_sign(double size, double x) {
  return from_bits(to_bits(size) | (to_bits(x) & 0x8000000000000000u));
}

REPDL_HD inline double exp(double x) {
  if (x != x) return nan();
  if (x > 710.0) return infinity();
  if (x < -746.0) return 0.0;
  return rounded(big::exp(Big(x)));
}

REPDL_HD inline double exp2(double x) {
  if (x != x) return nan();
  if (x >= 1024.0) return infinity();
  if (x < -1076.0) return 0.0;
  const int n = big::nearest(x);
  if (n == x) return rounded(Big::of(1, n));
  return rounded(scaled(big::exp((Big(x) - big::integer<8>(n)) * big::ln_2<8>()), n));
}

REPDL_HD inline double expm1(double x) {
  if (x != x) return nan();
  if (x == 0.0) return x;
  if (x > 710.0) return infinity();
  if (x < -50.0) return -1.0;
  return rounded(big::expm1(Big(x)));
}

// log(x) times `factor`, where that is neither a double nor a midpoint.
template <class Factor>
REPDL_HD inline double logarithm(double x, Factor factor) {
  if (x != x || x < 0.0) return nan();
  if (x == 0.0) return -infinity();
  if (x == infinity()) return x;
  if (x == 1.0) return 0.0;
  return rounded(factor(big::log(Big(x))));
}

REPDL_HD inline double log(double x) {
  return logarithm(x, [](const Big& y) { return y; });
}

REPDL_HD inline double log2(double x) {
  if (x > 0.0 && finite(x)) {
    const Big m(x);
    bool power = m.limb[7] == 0x80000000u;
    for (int i = 0; i < 7; ++i) power = power && m.limb[i] == 0;
    if (power) return m.exponent - 1;
  }
  return logarithm(x, [](const Big& y) { return y / big::ln_2<8>(); });
}

REPDL_HD inline double log10(double x) {
  double power = 1.0;
  for (int n = 0; n < 23; ++n) {  // 10**22 is the last that is a double
    if (x == power) return n;
    power = mul(power, 10.0);
  }
  return logarithm(x, [](const Big& y) { return y / big::ln_10<8>(); });
}

REPDL_HD inline double log1p(double x) {
  if (x != x || x < -1.0) return nan();
  if (x == 0.0 || x == infinity()) return x;
  if (x == -1.0) return -infinity();
  return rounded(big::log1p(Big(x)));
}

REPDL_HD inline double rsqrt(double x) {
  if (x != x || x < 0.0) return nan();
  if (x == 0.0) return with_sign(infinity(), x);
  if (x == infinity()) return 0.0;
  const Big m(x);
  bool power = m.limb[7] == 0x80000000u && (m.exponent & 1) != 0;  // of 4
  for (int i = 0; i < 7; ++i) power = power && m.limb[i] == 0;
  if (power) return rounded(Big::of(1, -(m.exponent - 1) / 2));
  return rounded(reciprocal_root(m));
}

REPDL_HD inline double sin(double x) {
  if (!finite(x)) return nan();
  return x == 0.0 ? x : rounded(big::sin(big::by_quarters<8>(x)));
}

REPDL_HD inline double cos(double x) {
  if (!finite(x)) return nan();
  return rounded(big::sin(big::by_quarters<8>(x), 1));
}

REPDL_HD inline double tan(double x) {
  if (!finite(x)) return nan();
  if (x == 0.0) return x;
  const big::Reduced<8> r = big::by_quarters<8>(x);
  return rounded(big::sin(r) / big::sin(r, 1));
}

// sqrt(1 - x**2)
REPDL_HD inline Big other_side(const Big& x) { return root((Big::of(1) - x) * (Big::of(1) + x)); }

REPDL_HD inline double asin(double x) {
  if (!(size_of(x) <= 1.0)) return nan();
  if (x == 0.0) return x;
  const Big side(size_of(x));
  return with_sign(rounded(angle(side, other_side(side))), x);
}

REPDL_HD inline double acos(double x) {
  if (!(size_of(x) <= 1.0)) return nan();
  if (x == 1.0) return 0.0;
  const Big side(size_of(x)), acute = angle(other_side(side), side);
  return rounded(x < 0.0 ? scaled(half_pi<8>(), 1) - acute : acute);
}

REPDL_HD inline double atan(double x) {
  if (x != x) return nan();
  if (x == 0.0) return x;
  const double size = size_of(x);
  return with_sign(size == infinity() ? rounded(half_pi<8>()) : rounded(angle(Big(size), Big::of(1))), x);
}

REPDL_HD inline double sinh(double x) {
  if (x != x) return nan();
  const double size = size_of(x);
  if (x == 0.0) return x;
  if (size > 711.0) return with_sign(infinity(), x);
  const Big e = big::expm1(Big(size));
  return with_sign(rounded(scaled(e + e / (e + Big::of(1)), -1)), x);
}

REPDL_HD inline double cosh(double x) {
  if (x != x) return nan();
  const double size = size_of(x);
  if (size > 711.0) return infinity();
  const Big e = big::exp(Big(size));
  return rounded(scaled(e + reciprocal(e), -1));
}

REPDL_HD inline double tanh(double x) {
  if (x != x) return nan();
  const double size = size_of(x);
  if (x == 0.0) return x;
  if (size > 20.0) return with_sign(1.0, x);
  const Big e = big::expm1(Big(mul(2.0, size)));
  return with_sign(rounded(e / (e + Big::of(2))), x);
}

REPDL_HD inline double asinh(double x) {
  if (x != x) return nan();
  if (x == 0.0 || !finite(x)) return x;
  const Big a(size_of(x)), square = a * a, one = Big::of(1);
  return with_sign(rounded(big::log1p(a + square / (one + root(one + square)))), x);
}

REPDL_HD inline double acosh(double x) {
  if (!(x >= 1.0)) return nan();
  if (x == 1.0) return 0.0;
  if (x == infinity()) return x;
  const Big a(x), above = a - Big::of(1);
  return rounded(big::log1p(above + root(above * (a + Big::of(1)))));
}

REPDL_HD inline double atanh(double x) {
  const double size = size_of(x);
  if (!(size <= 1.0)) return nan();
  if (x == 0.0) return x;
  if (size == 1.0) return with_sign(infinity(), x);
  const Big a(size);
  return with_sign(rounded(scaled(big::log1p(scaled(a, 1) / (Big::of(1) - a)), -1)), x);
}

REPDL_HD inline double sigmoid(double x) {
  if (x != x) return nan();
  if (x > 40.0) return 1.0;
  if (x < -746.0) return 0.0;
  return rounded(reciprocal(Big::of(1) + big::exp(-Big(x))));
}

REPDL_HD inline double erf(double x) {
  if (x != x) return nan();
  if (x == 0.0) return x;
  const double size = size_of(x);
  return with_sign(size > 6.0 ? 1.0 : rounded(big::erf(Big(size))), x);
}

REPDL_HD inline double erfc(double x) {
  if (x != x) return nan();
  if (x < -6.0) return 2.0;
  if (x > 27.5) return 0.0;
  return rounded(big::erfc(Big(x)));
}

// Newton's method on BigFloats, from a double. Where y is near 1 erfc loses nothing: 1 - y is exact.
REPDL_HD inline double erfinv(double y) {
  const double size = size_of(y);
  if (!(size <= 1.0)) return nan();
  if (y == 0.0) return y;
  if (size == 1.0) return with_sign(infinity(), y);
  const Big wanted(size), rest = Big::of(1) - wanted;
  Big x;
  if (size < 0x1p-20) {
    x = wanted * reciprocal(big::two_over_root_pi<8>());
  } else {  // S. Winitzki, "A handy approximation for the error function and its inverse", 2008
    const double l = about(big::log(rest * (Big::of(1) + wanted))), a = 0.147;
    const double b = 2.0 / mul(3.14159265358979, a) + mul(0.5, l);
    const double square = std::sqrt(mul(b, b) - l / a) - b;
    x = Big(std::sqrt(square));
  }
  for (int i = 0; i < 7; ++i) {
    const bool upper = about(x) > 0.5;
    const Big error = upper ? rest - big::erfc(x) : big::erf(x) - wanted;
    const Big step = error * big::exp(x * x) / big::two_over_root_pi<8>();
    // Halley's method: the second derivative of erf is -2 x times the first.
    x = x - step / (Big::of(1) + x * step);
    if (step.size() < x.size() - 100) break;
  }
  return with_sign(rounded(x), y);
}

}  // namespace repdl::exact::accurate
