// atan and its kin in double-doubles.
//
// The angle of (b, a), 0 <= a <= b: with i / 128 next to a / b it is atan(i / 128) + atan(u), u = (a - i / 128 b) /
// (b + i / 128 a) below 2**-8, as a double-double; atan(u) = u - u**3 / 3 + ..., whose rounding is below 2**-67.8 u.
#pragma once

#include "repdl/exact/double_double/exp.hpp"
#include "repdl/exact/double_double/atan_tables.hpp"

namespace repdl::exact::double_double {

REPDL_HD_INLINE constexpr Margins atan_margins() { return {0x1p-3, 0x1p-67, 0x1p-72}; }

template <class V>
REPDL_HD_INLINE Pair<V> selected(bool_of<V> mask, Pair<V> a, Pair<V> b) {
  return {select(mask, a.hi, b.hi), select(mask, a.lo, b.lo)};
}

template <class V>
REPDL_HD_INLINE Pair<V> acute_angle(Pair<V> a, Pair<V> b) {
  const auto steep = b.hi < a.hi;
  const Pair<V> low = selected<V>(steep, b, a), high = selected<V>(steep, a, b);
  const V magic = V::set1(0x1.8p+52);
  const V shifted = madd(smaller(low.hi / high.hi, V::set1(1.0)), V::set1(128.0), magic);  // 1 for NaN
  const V i = (shifted - magic) * V::set1(0x1p-7);
  const Pair<V> u = (low - high * i) / (high + low * i);
  const V z = u.hi * u.hi;
  V p = madd(z, V::set1(1.0 / 9), V::set1(-1.0 / 7));
  p = madd(p, z, V::set1(1.0 / 5));
  p = madd(p, z, V::set1(-1.0 / 3));
  const V j = and_bits(shifted, 255);
  const Pair<V> s = quick_two_sum(look_up(atan_table_hi(), j), u.hi);
  const V rest = madd(p * z, u.hi, u.lo) + look_up(atan_table_lo(), j);
  const Pair<V> angle = quick_two_sum(s.hi, s.lo + rest);
  return selected<V>(steep, Pair<V>{V::set1(half_pi_hi), V::set1(half_pi_lo)} - angle, angle);
}

template <class V>
REPDL_HD_INLINE Rounded<V> atan(V x) {
  const V size = smaller(absolute(x), V::set1(0x1p+60));
  const Rounded<V> y = rounded(acute_angle(single_pair(size), single_pair(V::set1(1.0))), atan_margins());
  const auto plain = (V::set1(0x1p-400) < size) & (absolute(x) < V::set1(0x1p+60));
  return {with_sign(y.value, x), y.decided & (plain | (x == V::set1(0.0)))};
}

// sqrt(1 - x**2)
template <class V>
REPDL_HD_INLINE Pair<V> other_side(V x) {
  return root(two_sum(V::set1(1.0), -x) * two_sum(V::set1(1.0), x));
}

template <class V>
REPDL_HD_INLINE Rounded<V> asin(V x) {
  const V size = absolute(x);
  const Rounded<V> y = rounded(acute_angle(single_pair(size), other_side(size)), atan_margins());
  const auto plain = (V::set1(0x1p-400) < size) & (size < V::set1(1.0));
  return {with_sign(y.value, x), y.decided & (plain | (x == V::set1(0.0)))};
}

template <class V>
REPDL_HD_INLINE Rounded<V> acos(V x) {
  const V size = absolute(x);
  const Pair<V> acute = acute_angle(other_side(size), single_pair(size));
  const Pair<V> pi{V::set1(2.0 * half_pi_hi), V::set1(2.0 * half_pi_lo)};
  const Rounded<V> y = rounded(selected<V>(x < V::set1(0.0), pi - acute, acute), atan_margins());
  const auto plain = (V::set1(0x1p-100) < size) & (size < V::set1(1.0));
  return {y.value, y.decided & plain};
}

// For y and x of sizes from 2**-400 to 2**400, y / x not below 2**-100: a / b alone could be a midpoint.
template <class V>
REPDL_HD_INLINE Rounded<V> atan2(V y, V x) {
  const V a = absolute(y), b = absolute(x), low = V::set1(0x1p-400), high = V::set1(0x1p+400);
  const Pair<V> acute = acute_angle(single_pair(a), single_pair(b));
  const Pair<V> pi{V::set1(2.0 * half_pi_hi), V::set1(2.0 * half_pi_lo)};
  const Rounded<V> size = rounded(selected<V>(x < V::set1(0.0), pi - acute, acute), atan_margins());
  const auto plain = (low < a) & (low < b) & (a < high) & (b < high) & (b * V::set1(0x1p-100) < a);
  return {with_sign(size.value, y), size.decided & plain};
}

}  // namespace repdl::exact::double_double
