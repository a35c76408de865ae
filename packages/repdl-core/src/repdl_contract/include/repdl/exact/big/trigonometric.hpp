// sin, cos and their inverses of BigFloats.
#pragma once

#include "repdl/exact/big/exponential.hpp"

namespace repdl::exact::big {

// x - quarters pi / 2, |r| <= pi / 4 and a little.
template <int N>
struct Reduced {
  BigFloat<N> r;
  int quarters;  // modulo 4
};

// Of a finite double: products with the bits of 2 / pi that do not make whole multiples of 4 (Payne and Hanek).
template <int N>
REPDL_HD_APART Reduced<N> by_quarters(double x) {
  const std::uint64_t pattern = to_bits(x);
  const int biased = static_cast<int>(pattern >> 52 & 0x7ff);
  if (biased < 1023 - 1) return {BigFloat<N>(x), 0};  // |x| < 1/2
  const std::uint64_t m = (pattern & 0xfffffffffffffu) | std::uint64_t{1} << 52;
  const int e = biased - 1075;  // |x| = m 2**e

  // The window has two bits before the point of m 2**e 2 / pi, after m has been multiplied: from that of weight
  // 2**(1 - e) in 2 / pi on. Words: the first is the highest.
  constexpr int words = N + 4;
  const int first = e - 2;  // bits behind the point of 2 / pi that are skipped; may be negative
  const int word = (first + 32 * 64) / 32 - 64, shift = first - 32 * word;
  std::uint32_t window[words];
  for (int i = 0; i < words; ++i) {
    const std::uint64_t pair = static_cast<std::uint64_t>(two_over_pi(word + i)) << 32 | two_over_pi(word + i + 1);
    window[i] = static_cast<std::uint32_t>(pair << shift >> 32);
  }
  // window 2**(2 - 32 words) m modulo 4: carries above the window are multiples of 4.
  std::uint32_t product[words];
  const std::uint64_t m_low = m & 0xffffffffu, m_high = m >> 32;
  std::uint64_t carry = 0;
  for (int i = words; i-- > 0;) {
    const std::uint64_t low = window[i] * m_low;
    const std::uint64_t high = i + 1 < words ? window[i + 1] * m_high : 0;
    const std::uint64_t sum = (low & 0xffffffffu) + (high & 0xffffffffu) + (carry & 0xffffffffu);
    product[i] = static_cast<std::uint32_t>(sum);
    carry = (carry >> 32) + (low >> 32) + (high >> 32) + (sum >> 32);
  }
  // The nearest integer: the two highest bits, and one more where the next is set.
  const bool up = product[0] >> 29 & 1;
  int quarters = static_cast<int>(product[0] >> 30) + up;
  std::uint32_t inverted = up ? 0xffffffffu : 0u;
  product[0] &= 0x3fffffffu;
  if (up) product[0] |= 0xc0000000u;
  std::uint64_t one = up;
  for (int i = words; i-- > 0;) {
    one += product[i] ^ inverted;
    product[i] = static_cast<std::uint32_t>(one);
    one >>= 32;
  }
  int top = 0;
  while (top < words - 1 && product[top] == 0) ++top;
  BigFloat<N> f;
  int left = 0;
  for (std::uint32_t head = product[top]; head >> 31 == 0 && left < 31; head <<= 1) ++left;
  for (int i = 0; i < N; ++i) {
    const int j = top + N - 1 - i;
    const std::uint64_t here = j < words ? product[j] : 0, below = j + 1 < words ? product[j + 1] : 0;
    f.limb[i] = static_cast<std::uint32_t>((here << 32 | below) << left >> 32);
  }
  f.exponent = 2 - 32 * top - left;
  f.negative = up;
  if (pattern >> 63 != 0) {
    f.negative = !f.negative;
    quarters = -quarters;
  }
  return {f * half_pi<N>(), quarters & 3};
}

// x + s x**3 / 3! + ... of the sine (first 1), 1 + s x**2 / 2! + ... of the cosine (first 0), s = -1.
template <int N>
REPDL_HD_APART BigFloat<N> circular_series(const BigFloat<N>& x, std::uint32_t first) {
  const BigFloat<N> square = -(x * x);
  BigFloat<N> term = first == 1 ? x : BigFloat<N>::of(1), sum = term;
  for (std::uint32_t n = first + 2; !term.zero() && term.size() > sum.size() - BigFloat<N>::bits; n += 2) {
    term = term * square / (n * (n - 1));
    sum = sum + term;
  }
  return sum;
}

// The sine of x and quarters more quarters.
template <int N>
REPDL_HD inline BigFloat<N> sin(const Reduced<N>& x, int quarters = 0) {
  const int q = (x.quarters + quarters) & 3;
  const BigFloat<N> size = circular_series(x.r, (q & 1) != 0 ? 0 : 1);
  return (q & 2) != 0 ? -size : size;
}

// atan(x) in double for x in [0, 1]: within 2**-40 or so.
REPDL_HD inline double atan_about(double x) {
  const bool upper = x > 0.4142;
  const double t = upper ? (x - 1.0) / (x + 1.0) : x, z = mul(t, t);
  double p = 0.0;
  for (int n = 35; n > 0; n -= 2) p = madd(p, z, (n & 2) != 0 ? -1.0 / n : 1.0 / n);
  return madd(t, p, upper ? 0x1.921fb54442d18p-1 : 0.0);
}

// atan(y / x) for y, x >= 0, not both 0, in [0, pi / 2]: a in double, and the angle between.
template <int N>
REPDL_HD_APART BigFloat<N> angle(const BigFloat<N>& y, const BigFloat<N>& x) {
  const bool steep = compare_sizes(y, x) > 0;
  const BigFloat<N> t = steep ? x / y : y / x;
  BigFloat<N> u = t, a;
  if (t.size() > -20) {
    a = BigFloat<N>(atan_about(about(t)));
    const BigFloat<N> s = circular_series(a, 1), c = circular_series(a, 0);
    u = (t * c - s) / (c + t * s);
  }
  const BigFloat<N> square = -(u * u);
  BigFloat<N> power = u, sum = u;
  for (std::uint32_t n = 3; !power.zero() && power.size() > sum.size() - BigFloat<N>::bits; n += 2) {
    power = power * square;
    sum = sum + power / n;
  }
  const BigFloat<N> acute = a + sum;
  return steep ? half_pi<N>() - acute : acute;
}

}  // namespace repdl::exact::big
