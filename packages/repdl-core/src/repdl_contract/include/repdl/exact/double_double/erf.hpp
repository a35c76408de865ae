// erf, erfc and the inverse of erf in double-doubles.
//
// With c = j / 64 next to |x|, t = |x| - c: erf(c) + d (t + t**2 b_1 + t**3 b_2 + ...), d the slope of erf at c; the
// series is the integral of exp(-2 c t - t**2): (n + 1) b_n = -2 (c b_(n-1) + (n - 1) / n b_(n-2)), b_0 = 1. Its first
// three terms are double-doubles; the others are below 2**-28 of it, and up to |x| = 6 below 2**-18 of erfc(x).
#pragma once

#include "repdl/exact/double_double/erf_tables.hpp"
#include "repdl/exact/double_double/erfc_tables.hpp"
#include "repdl/exact/double_double/erfinv_start.hpp"
#include "repdl/exact/double_double/log.hpp"

namespace repdl::exact::double_double {

// |x| up to 6 as c + t.
template <class V>
struct ErfParts {
  V j, c, t;
};

template <class V>
REPDL_HD_INLINE ErfParts<V> erf_parts(V size) {
  const V magic = V::set1(0x1.8p+52);
  const V shifted = madd(size, V::set1(64.0), magic), c = (shifted - magic) * V::set1(0x1p-6);
  return {and_bits(shifted, 511), c, size - c};
}

// t + t**2 b_1 + ... + t**terms b_(terms - 1); the lower part may be larger than half of an ulp.
template <int terms, class V>
REPDL_HD_INLINE Pair<V> erf_series(V c, V t) {
  const Pair<V> square = two_product(t, t), cube = product(square, t);
  const Pair<V> second = two_product(square.hi, -c);
  const Pair<V> third = product(cube, madd(c, c + c, V::set1(-1.0)));  // 3 b_2 is exact
  const Pair<V> of_three = product(third, Pair<V>{V::set1(0x1.5555555555555p-2), V::set1(0x1.5555555555555p-56)});

  V b[terms - 1] = {-c, madd(c, c, V::set1(-0.5)) * V::set1(2.0 / 3)};  // b_1 and those that follow
  for (int n = 3; n < terms; ++n) {
    b[n - 1] = madd(c, b[n - 2], b[n - 3] * V::set1((n - 1.0) / n)) * V::set1(-2.0 / (n + 1));
  }
  V sum = b[terms - 2];
  for (int n = terms - 2; n > 2; --n) sum = madd(sum, t, b[n - 1]);

  const Pair<V> two = quick_two_sum(t, second.hi), three = quick_two_sum(two.hi, of_three.hi);
  const V rest = madd(square.lo, -c, madd(sum * t, cube.hi, second.lo + of_three.lo));
  return {three.hi, three.lo + (two.lo + rest)};
}

template <class V>
REPDL_HD_INLINE Pair<V> erf_slope(V j) {
  return {look_up(erf_slope_hi(), j), look_up(erf_slope_lo(), j)};
}

template <class V>
REPDL_HD_INLINE Rounded<V> erf(V x) {
  const ErfParts<V> parts = erf_parts(smaller(absolute(x), V::set1(6.0)));
  const Pair<V> more = product(erf_series<9>(parts.c, parts.t), erf_slope(parts.j));
  const Pair<V> s = quick_two_sum(look_up(erf_table_hi(), parts.j), more.hi);
  const V low = s.lo + (more.lo + look_up(erf_table_lo(), parts.j));
  const Rounded<V> y = rounded(quick_two_sum(s.hi, low), 0x1p-74);
  return {with_sign(y.value, x), y.decided & not_tiny(x) & (x == x)};
}

// erfc(c) - d (t + ...), for |x| up to 6.
template <class V>
REPDL_HD_INLINE Pair<V> erfc_of(const ErfParts<V>& parts, Pair<V> series) {
  const Pair<V> less = product(series, erf_slope(parts.j));
  const Pair<V> s = quick_two_sum(look_up(erfc_table_hi(), parts.j), -less.hi);
  return quick_two_sum(s.hi, s.lo + (look_up(erfc_table_lo(), parts.j) - less.lo));
}

// Of x up to 6: where x is negative, 2 - erfc(|x|), which is 2 from there on.
template <class V>
REPDL_HD_INLINE Rounded<V> erfc(V x) {
  const ErfParts<V> parts = erf_parts(smaller(absolute(x), V::set1(6.0)));
  const Pair<V> right = erfc_of(parts, erf_series<13>(parts.c, parts.t));
  const Pair<V> left = V::set1(2.0) - right;
  const auto negative = x < V::set1(0.0);
  const Margins margins = {0x1p-12, 0x1p-67, 0x1p-72};
  const Rounded<V> y =
      rounded(Pair<V>{select(negative, left.hi, right.hi), select(negative, left.lo, right.lo)}, margins);
  return {y.value, y.decided & (x < V::set1(6.0))};
}

// From y next to the result, a double with a relative error below 2**-24, by the Taylor series of the inverse:
// with r = (|x| - erf(y)) / slope(y), which from 1/2 on is (erfc(y) - (1 - |x|)) / slope(y), 1 - |x| being exact, it is
// y + r + y r**2 + (1 + 4 y**2) / 3 r**3 + ..., and the next term is below 2**-80 of it.
template <class V>
REPDL_HD_INLINE Rounded<V> erfinv(V x) {
  const V size = absolute(x), one = V::set1(1.0), rest = one - size;
  const V w = -log_pair(rest * (one + size)).hi;
  const V y = smaller(size * erfinv_start(w), V::set1(6.0));

  const ErfParts<V> parts = erf_parts(y);
  const Pair<V> series = erf_series<13>(parts.c, parts.t), slope = erf_slope(parts.j);
  const Pair<V> more = product(series, slope), below = quick_two_sum(look_up(erf_table_hi(), parts.j), more.hi);
  const V of_lower = ((size - below.hi) - below.lo) - (more.lo + look_up(erf_table_lo(), parts.j));
  const Pair<V> right = erfc_of(parts, series);
  const V difference = select(size < V::set1(0.5), of_lower, (right.hi - rest) + right.lo);

  // slope(y) = d exp(z), z = -(2 c + t) t, at most 0.1 in size.
  const V z = -(parts.c + parts.c + parts.t) * parts.t;
  V e = madd(z, V::set1(1.0 / 362880), V::set1(1.0 / 40320));
  e = madd(e, z, V::set1(1.0 / 5040));
  e = madd(e, z, V::set1(1.0 / 720));
  e = madd(e, z, V::set1(1.0 / 120));
  e = madd(e, z, V::set1(1.0 / 24));
  e = madd(e, z, V::set1(1.0 / 6));
  e = madd(e, z, V::set1(0.5));
  e = madd(e, z, one);
  e = madd(e, z, one);
  const V r = difference / (slope.hi * e);
  const V third = madd(y * y, V::set1(4.0 / 3), V::set1(1.0 / 3));
  const Rounded<V> result = rounded(quick_two_sum(y, madd(r * r, madd(third, r, y), r)), 0x1p-73);
  return {with_sign(result.value, x), result.decided & not_tiny(x) & (size < one)};
}

}  // namespace repdl::exact::double_double
