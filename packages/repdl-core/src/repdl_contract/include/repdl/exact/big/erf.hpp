// erf and erfc of BigFloats.
#pragma once

#include "repdl/exact/big/exponential.hpp"

namespace repdl::exact::big {

// 2 / sqrt(pi) x exp(-x**2) times the sum of (2 x**2)**n / (1 * 3 * ... * (2 n + 1)); all terms are positive.
template <int N>
REPDL_HD_APART BigFloat<N> erf(const BigFloat<N>& x) {
  const BigFloat<N> square = x * x, twice = scaled(square, 1);
  BigFloat<N> term = BigFloat<N>::of(1), sum = term;
  for (std::uint32_t n = 3; !term.zero() && term.size() > sum.size() - BigFloat<N>::bits; n += 2) {
    term = term * twice / n;
    sum = sum + term;
  }
  return two_over_root_pi<N>() * x * exp(-square) * sum;
}

// erfc(x) = exp(-x**2) / sqrt(pi) / (x + (1/2) / (x + 1 / (x + (3/2) / (x + 2 / ...)))) (DLMF 7.9.1), x >= 5:
// numerators and denominators from the front.
template <int N>
REPDL_HD_APART BigFloat<N> erfc_fraction(const BigFloat<N>& x) {
  const double size = about(x);
  const int terms = 24 + static_cast<int>(32.0 * BigFloat<N>::bits / mul(size, size));
  BigFloat<N> a0 = BigFloat<N>::of(1), a1 = x, b0, b1 = BigFloat<N>::of(1);  // a1 / b1 = x
  for (int n = 1; n <= terms; ++n) {
    const std::uint32_t m = static_cast<std::uint32_t>(n);
    const BigFloat<N> a2 = x * a1 + scaled(a0 * m, -1), b2 = x * b1 + scaled(b0 * m, -1);
    a0 = a1;
    a1 = a2;
    b0 = b1;
    b1 = b2;
  }
  return scaled(two_over_root_pi<N>() * exp(-(x * x)), -1) * (b1 / a1);
}

// erfc(x) for x below 2**6
template <int N>
REPDL_HD inline BigFloat<N> erfc(const BigFloat<N>& x) {
  if (x.negative || about(x) < 5.0) return BigFloat<N>::of(1) - erf(x);
  return erfc_fraction(x);
}

}  // namespace repdl::exact::big
