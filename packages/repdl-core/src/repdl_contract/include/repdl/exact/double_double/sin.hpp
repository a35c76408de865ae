// sin, cos and tan in double-doubles.
//
//   x = k pi / 128 + t, |t| < 2**-6.3:  sin(x) = s cos(t) + c sin(t), with s and c the sine and cosine of k pi / 128
//
// t = x - k pi / 128 by four parts of pi / 128, to 2**-113; its cosine and sine by series. What is no double-double
// in the sum is below 2**-20 of it, and has an error of 2**-73. For |x| below 2**20 and, as the parts give t to
// no more than 2**-113, results from 2**-34 on or arguments below pi / 256.
#pragma once

#include "repdl/exact/double_double/exp.hpp"

namespace repdl::exact::double_double {

constexpr double sin_margin = 0x1p-67;

template <class V>
struct Angle {
  Pair<V> t;
  V k;  // with 2**52 * 1.5 added
  bool_of<V> decided;
};

template <class V>
REPDL_HD_INLINE Angle<V> angle_of(V x) {
  const V magic = V::set1(0x1.8p+52);
  const V shifted = madd(x, V::set1(0x1.45f306dc9c883p+5), magic), k = shifted - magic;
  const V a = madd(k, V::set1(-pi_128[0]), x);  // exact: 27 bits of pi / 128, 26 of k
  const Pair<V> b = two_sum(a, k * V::set1(-pi_128[1]));
  const Pair<V> c = two_sum(b.hi, k * V::set1(-pi_128[2]));
  const V low = madd(k, V::set1(-pi_128[3]), b.lo + c.lo);
  const Pair<V> t = quick_two_sum(c.hi, low);
  const auto near = (absolute(x) < V::set1(0x1p+20)) & ((V::set1(0x1p-34) < absolute(t.hi)) | (k == V::set1(0.0)));
  return {t, shifted, near};
}

// The sine of t and `quarters` of 64 more steps.
template <class V>
REPDL_HD_INLINE Pair<V> sine_of(const Angle<V>& x, int quarters) {
  const V shifted = x.k;
  const V steps = from_pattern<V>(static_cast<std::uint64_t>(64 * quarters)), quarter = from_pattern<V>(64);
  const V j = and_bits(plus_bits(shifted, steps), 255),
          i = and_bits(plus_bits(plus_bits(shifted, steps), quarter), 255);
  const Pair<V> s{look_up(sin_table_hi(), j), look_up(sin_table_lo(), j)};
  const Pair<V> c{look_up(sin_table_hi(), i), look_up(sin_table_lo(), i)};
  const V t = x.t.hi, z = t * t;

  // sin(t) = t - t**3 / 6 + t**5 p, cos(t) = 1 - t**2 / 2 + t**4 q
  V p = madd(z, V::set1(1.0 / 362880), V::set1(-1.0 / 5040));
  p = madd(p, z, V::set1(1.0 / 120));
  V q = madd(z, V::set1(1.0 / 40320), V::set1(-1.0 / 720));
  q = madd(q, z, V::set1(1.0 / 24));

  const Pair<V> square = two_product(t, t * V::set1(-0.5));
  const Pair<V> cube = square * t * Pair<V>{V::set1(0x1.5555555555555p-2), V::set1(0x1.5555555555555p-56)};
  const Pair<V> first = two_product(c.hi, t), second = two_product(s.hi, square.hi);
  const Pair<V> a = two_sum(s.hi, first.hi), b = two_sum(a.hi, second.hi), d = two_sum(b.hi, c.hi * cube.hi);
  // s and c times what is left of the series, and the low parts.
  const V four = z * z;
  const V of_cos = madd(q, four, madd(-t, x.t.lo, square.lo));
  const V of_sin = madd(p * four, t, madd(square.hi, x.t.lo, cube.lo + x.t.lo));
  const V rest = madd(c.hi, of_sin, madd(s.hi, of_cos, madd(c.lo, t, madd(s.lo, square.hi, s.lo))));
  return quick_two_sum(d.hi, (a.lo + b.lo) + (d.lo + (first.lo + (second.lo + rest))));
}

template <class V>
REPDL_HD_INLINE Rounded<V> sin(V x) {
  const Angle<V> angle = angle_of(x);
  const Rounded<V> y = rounded(sine_of(angle, 0), sin_margin);
  return {zero_kept(x, y.value), y.decided & angle.decided & not_tiny(x)};
}

template <class V>
REPDL_HD_INLINE Rounded<V> cos(V x) {
  const Angle<V> angle = angle_of(x);
  const Rounded<V> y = rounded(sine_of(angle, 1), sin_margin);
  return {y.value, y.decided & angle.decided};
}

template <class V>
REPDL_HD_INLINE Rounded<V> tan(V x) {
  const Angle<V> angle = angle_of(x);
  const Rounded<V> y = rounded(sine_of(angle, 0) / sine_of(angle, 1), 0x1p-66);
  return {zero_kept(x, y.value), y.decided & angle.decided & not_tiny(x)};
}

}  // namespace repdl::exact::double_double
