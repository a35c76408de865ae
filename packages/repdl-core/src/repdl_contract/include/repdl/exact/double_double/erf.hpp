// erf in double-doubles.
//
// With c = j / 64 next to |x|, t = |x| - c: erf(c) + d (t + t**2 b_1 + t**3 b_2 + ...), d the slope of erf at c; the
// series is the integral of exp(-2 c t - t**2): (n + 1) b_n = -2 (c b_(n-1) + (n - 1) / n b_(n-2)), b_0 = 1. Its first
// two terms are double-doubles, the others below 2**-14 of it.
#pragma once

#include "repdl/exact/double_double/exp.hpp"
#include "repdl/exact/double_double/erf_tables.hpp"

namespace repdl::exact::double_double {

// t**3 / 3 is rounded, of which small results see more.
template <class V>
REPDL_HD_INLINE V erf_margin(V size) {
  return select(size < V::set1(0x1p-4), V::set1(0x1p-65), V::set1(0x1p-69));
}

// The series without d: t + t**2 b_1 + ...
template <class V>
REPDL_HD_INLINE Pair<V> erf_series(V c, V t) {
  const Pair<V> square = two_product(t, t);
  const Pair<V> second = two_product(square.hi, -c);
  V b[8] = {-c, madd(c, c, V::set1(-0.5)) * V::set1(2.0 / 3)};  // b_1 and those that follow
  for (int n = 3; n < 9; ++n) {
    b[n - 1] = madd(c, b[n - 2], b[n - 3] * V::set1((n - 1.0) / n)) * V::set1(-2.0 / (n + 1));
  }
  V sum = b[7];
  for (int n = 6; n > 0; --n) sum = madd(sum, t, b[n]);
  const Pair<V> s = quick_two_sum(t, second.hi);
  return {s.hi, s.lo + madd(square.lo, -c, madd(sum, square.hi * t, second.lo))};
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
  const Rounded<V> y = rounded(quick_two_sum(s.hi, s.lo + (more.lo + look_up(erf_table_lo(), j))), erf_margin(size));
  return {with_sign(y.value, x), y.decided & not_tiny(x) & (x == x)};
}

}  // namespace repdl::exact::double_double
