// x**y and the angle of the point (x, y), doubles, rounded once: by BigFloats of 384 bits, slowly.
//
// Results that are doubles or midpoints of two are found by integers. That no other one is closer than 2**-300 to a
// midpoint is not proven; of the 2**128 pairs of doubles one in 2**245 is expected to be.
#pragma once

#include "repdl/exact/accurate.hpp"

namespace repdl::exact::accurate {

using Bigger = big::BigFloat<12>;

// m 2**e, m odd
struct OddPart {
  std::uint64_t m;
  int e;

  REPDL_HD explicit OddPart(double size) {
    const std::uint64_t pattern = to_bits(size), fraction = pattern & 0xfffffffffffffu;
    const int biased = static_cast<int>(pattern >> 52);
    m = biased == 0 ? fraction : fraction | std::uint64_t{1} << 52;
    e = biased == 0 ? -1074 : biased - 1075;
    for (; (m & 1) == 0; m >>= 1) ++e;
  }

  // The root, where it is an integer times a power of two.
  REPDL_HD bool take_root() {
    if ((e & 1) != 0) return false;
    std::uint64_t r = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(m)));
    while (r * r > m) --r;
    while ((r + 1) * (r + 1) <= m) ++r;
    if (r * r != m) return false;
    m = r;
    e /= 2;
    return true;
  }
};

// a**p where that has 54 bits at most, for finite a > 0 other than 1 and finite p other than 0.
REPDL_HD inline bool short_power(double a, double p, Bigger& power) {
  OddPart base(a);
  const OddPart exponent(size_of(p));
  if (base.m == 1) {  // 2**(e p), where e p is an integer
    const double product = mul(base.e, p);
    if (!(size_of(product) < 4096.0) || big::nearest(product) != product) return false;
    if (fma(static_cast<double>(base.e), p, -product) != 0.0) return false;  // the exact one is none
    power = Bigger::of(1, big::nearest(product));
    return true;
  }
  if (p < 0.0 || exponent.e > 5 || exponent.e < -5) return false;
  for (int i = exponent.e; i < 0; ++i) {
    if (!base.take_root()) return false;
  }
  const std::uint64_t times = exponent.e > 0 ? exponent.m << exponent.e : exponent.m;
  if (exponent.m > 34 || times > 34) return false;  // 3**35 has more bits
  std::uint64_t m = 1;
  for (std::uint64_t i = 0; i < times; ++i) {
    if (m > (std::uint64_t{1} << 54) / base.m) return false;
    m *= base.m;
  }
  power = Bigger::of(m, base.e * static_cast<int>(times));
  return true;
}

// a**p for finite a > 0 other than 1 and finite p other than 0.
REPDL_HD_APART inline double power_of_size(double a, double p) {
  Bigger power;
  if (short_power(a, p, power)) return rounded(power);
  const Bigger product = Bigger(p) * big::log(Bigger(a));
  if (product.size() > 10) return product.negative ? 0.0 : infinity();
  return rounded(big::exp(product));
}

REPDL_HD inline bool is_integer(double x) {
  const double size = size_of(x);
  return size >= 0x1p+52 || (size + 0x1p+52) - 0x1p+52 == size;
}

REPDL_HD inline double pow(double x, double p) {
  if (p == 0.0 || x == 1.0) return 1.0;
  if (x != x || p != p) return nan();
  const bool integer = is_integer(p), odd = integer && size_of(p) < 0x1p+53 && !is_integer(mul(0.5, p));
  const double a = size_of(x), sign = odd ? x : 1.0;
  if (a == 1.0) return integer ? with_sign(1.0, sign) : nan();
  if (a == 0.0 || a == infinity() || !finite(p)) return with_sign((a > 1.0) == (p > 0.0) ? infinity() : 0.0, sign);
  if (x < 0.0 && !integer) return nan();
  return with_sign(power_of_size(a, p), sign);
}

// a / b, where that has 60 bits at most.
REPDL_HD inline bool short_quotient(const Bigger& a, const Bigger& b, Bigger& quotient) {
  quotient = a / b;
  quotient = quotient + scaled(Bigger::of(1), quotient.exponent - 61);
  for (int i = 0; i < 10; ++i) quotient.limb[i] = 0;
  quotient.limb[10] &= 0xfffffff0u;
  return compare_sizes(quotient * b, a) == 0;
}

REPDL_HD inline double atan2(double y, double x) {
  if (x != x || y != y) return nan();
  double a = size_of(y), b = size_of(x);
  const bool left = to_bits(x) >> 63 != 0;
  if (a == b && (a == 0.0 || a == infinity())) {  // as (1, 0) or (1, 1)
    a = a == 0.0 ? 0.0 : 1.0;
    b = 1.0;
  }
  if (a == 0.0 || b == infinity()) return with_sign(left ? rounded(scaled(half_pi<12>(), 1)) : 0.0, y);
  if (a == infinity()) return with_sign(rounded(half_pi<12>()), y);
  const Bigger high(a), wide(b);
  // The angle is a / b less a bit, which a quotient that is a midpoint must know.
  Bigger quotient;
  if (!left && high.size() - wide.size() < -100 && short_quotient(high, wide, quotient)) {
    return with_sign(rounded(quotient, big::Rest::less), y);
  }
  const Bigger acute = angle(high, wide);
  return with_sign(rounded(left ? scaled(half_pi<12>(), 1) - acute : acute), y);
}

}  // namespace repdl::exact::accurate
