// exp, expm1, log and log1p of BigFloats, within 2**-(32 N - 40) relatively where the argument is a double.
#pragma once

#include "repdl/exact/big/constants.hpp"

namespace repdl::exact::big {

// The nearest integer to x, |x| < 2**31.
REPDL_HD inline int nearest(double x) {
  return static_cast<int>(static_cast<std::int64_t>(to_bits(x + magic) << 12) >> 12);
}

// m as a BigFloat
template <int N>
REPDL_HD inline BigFloat<N> integer(int m) {
  BigFloat<N> x = BigFloat<N>::of(static_cast<std::uint64_t>(m < 0 ? -static_cast<std::int64_t>(m) : m));
  x.negative = m < 0;
  return x;
}

// exp(r) - 1 = r + r**2 / 2 + ...: for |r| < 1, fast for small ones.
template <int N>
REPDL_HD_APART BigFloat<N> expm1_series(const BigFloat<N>& r) {
  BigFloat<N> term = r, sum = r;
  for (std::uint32_t n = 2; !term.zero() && term.size() > sum.size() - BigFloat<N>::bits; ++n) {
    term = term * r / n;
    sum = sum + term;
  }
  return sum;
}

// exp(x) for |x| < 2**20: x = n ln 2 + 2**8 r, (exp(r) - 1 + 1)**256.
template <int N>
REPDL_HD_APART BigFloat<N> exp(const BigFloat<N>& x) {
  if (x.size() < -BigFloat<N>::bits) return BigFloat<N>::of(1);
  const int n = x.size() < -2 ? 0 : nearest(mul(about(x), 0x1.71547652b82fep+0));
  const BigFloat<N> r = n == 0 ? x : x - ln_2<N>() * integer<N>(n);
  BigFloat<N> y = BigFloat<N>::of(1) + expm1_series(scaled(r, -8));
  for (int i = 0; i < 8; ++i) y = y * y;
  return scaled(y, n);
}

// exp(x) - 1 for |x| < 2**20
template <int N>
REPDL_HD inline BigFloat<N> expm1(const BigFloat<N>& x) {
  return x.size() < -4 ? expm1_series(x) : exp(x) - BigFloat<N>::of(1);
}

// log(1 + y) = 2 atanh(z) = 2 (z + z**3 / 3 + ...) with z = y / (2 + y): for small |y|.
template <int N>
REPDL_HD_APART BigFloat<N> log1p_series(const BigFloat<N>& y) {
  const BigFloat<N> z = y / (BigFloat<N>::of(2) + y), square = z * z;
  BigFloat<N> power = z, sum = z;
  for (std::uint32_t n = 3; !power.zero() && power.size() > sum.size() - BigFloat<N>::bits; n += 2) {
    power = power * square;
    sum = sum + power / n;
  }
  return scaled(sum, 1);
}

// log(x) in double, for x in [1/2, 2): within 2**-40 or so, which BigFloats improve.
REPDL_HD inline double log_about(double x) {
  const double s = (x - 1.0) / (x + 1.0), z = mul(s, s);
  double p = 0.0;
  for (int n = 31; n > 0; n -= 2) p = madd(p, z, 2.0 / n);
  return mul(s, p);
}

// log(x) for x > 0: y in double, and log(x) = y + log(1 + (x exp(-y) - 1)).
template <int N>
REPDL_HD_APART BigFloat<N> log(const BigFloat<N>& x) {
  BigFloat<N> m = x;
  m.exponent = 0;
  int n = x.exponent;
  if (about(m) < 0x1.6a09e6p-1) {
    m.exponent = 1;
    --n;
  }
  const BigFloat<N> y(log_about(about(m)));
  const BigFloat<N> rest = m * exp(-y) - BigFloat<N>::of(1);
  return ln_2<N>() * integer<N>(n) + (y + log1p_series(rest));
}

// log(1 + y) for y > -1
template <int N>
REPDL_HD inline BigFloat<N> log1p(const BigFloat<N>& y) {
  return y.size() < -12 ? log1p_series(y) : log(BigFloat<N>::of(1) + y);
}

}  // namespace repdl::exact::big
