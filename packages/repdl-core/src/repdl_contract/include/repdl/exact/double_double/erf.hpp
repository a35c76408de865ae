// erf in double-doubles.
//
// With c = j / 64 next to |x|, t = |x| - c: erf(c) + d (t + t**2 b_1 + t**3 b_2 + ...), d the slope of erf at c; the
// series is the integral of exp(-2 c t - t**2): (n + 1) b_n = -2 (c b_(n-1) + (n - 1) / n b_(n-2)), b_0 = 1. Its first
// three terms are double-doubles, the others below 2**-20 of it.
#pragma once

#include "repdl/exact/double_double/exp.hpp"

namespace repdl::exact::double_double {

constexpr double erf_margin = 0x1p-68;

// The series over t, d left out: t + t**2 b_1 + ...
template <class V>
REPDL_HD_INLINE Pair<V> erf_series(V c, V t) {
  // b_1 = -c, b_2 = (2 c**2 - 1) / 3, ...
  const Pair<V> square = two_product(t, t), second = square * -c;
  const Pair<V> factor =
      (two_product(c, c) + V::set1(-0.5)) * Pair<V>{V::set1(2.0 / 3), V::set1(0x1.5555555555555p-55)};
  const Pair<V> third = square * t * factor;
  const V b2 = factor.hi;
  V before = -c, here = b2, power = square.hi * square.hi, sum = V::set1(0.0);
  V b[9];
  for (int n = 3; n < 12; ++n) {
    const V next = madd(c, here, before * V::set1((n - 1.0) / n)) * V::set1(-2.0 / (n + 1));
    b[n - 3] = next;
    before = here;
    here = next;
  }
  for (int n = 8; n >= 0; --n) sum = madd(sum, t, b[n]);
  const Pair<V> s = quick_two_sum(t, second.hi), u = two_sum(s.hi, third.hi);
  return quick_two_sum(u.hi, u.lo + (s.lo + (second.lo + madd(sum, power, third.lo))));
}

template <class V>
REPDL_HD_INLINE Rounded<V> erf(V x) {
  const V size = smaller(V::set1(6.0), absolute(x));
  const V magic = V::set1(0x1.8p+52);
  const V shifted = madd(size, V::set1(64.0), magic), j = and_bits(shifted, 511);
  const V c = (shifted - magic) * V::set1(0x1p-6), t = size - c;
  const Pair<V> d{look_up(erf_slope_hi(), j), look_up(erf_slope_lo(), j)};
  const Pair<V> more = erf_series(c, t) * d;
  const Pair<V> s = quick_two_sum(look_up(erf_table_hi(), j), more.hi);
  const Rounded<V> y = rounded(quick_two_sum(s.hi, s.lo + (more.lo + look_up(erf_table_lo(), j))), erf_margin);
  return {with_sign(y.value, x), y.decided & not_tiny(x) & (x == x)};
}

}  // namespace repdl::exact::double_double
