// sin, cos and tan in double-doubles.
//
//   x = k pi / 256 + t, |t| < 2**-7.3:  sin(x) = s cos(t) + c sin(t), with s and c the sine and cosine of k pi / 256
//
// t is x - k pi / 256: up to 2**12 by three parts of pi / 256, to 2**-108, and up to 2**20 by four, to 2**-113. So
// results are from 2**-34 on, or arguments below pi / 512. What is no double-double in the sum is below 2**-24, and has
// an error below 2**-74.5.
#pragma once

#include "repdl/exact/double_double/exp.hpp"
#include "repdl/exact/double_double/sin_tables.hpp"

namespace repdl::exact::double_double {

REPDL_HD_INLINE constexpr Margins sin_margins() { return {0x1p-2, 0x1p-66, 0x1p-72}; }

template <class V>
struct Angle {
  Pair<V> t;
  V k;  // with 2**52 * 1.5 added
  bool_of<V> decided;
};

template <class V>
REPDL_HD_INLINE Angle<V> angle_of(V x) {
  const V magic = V::set1(0x1.8p+52), size = absolute(x);
  const V shifted = madd(x, V::set1(0x1.45f306dc9c883p+6), magic), k = shifted - magic;
  Pair<V> t;
  if (everywhere(size < V::set1(0x1p+12))) {
    const V a = madd(k, V::set1(-pi_256_near_0), x);  // exact: 33 bits of pi / 256, 19 of k
    t = two_sum(a, k * V::set1(-pi_256_near_1));
    t.lo = madd(k, V::set1(-pi_256_near_2), t.lo);
  } else {
    const V a = madd(k, V::set1(-pi_256_0), x);  // exact: 25 bits of pi / 256, 27 of k
    const Pair<V> b = two_sum(a, k * V::set1(-pi_256_1));
    const Pair<V> c = two_sum(b.hi, k * V::set1(-pi_256_2));
    t = quick_two_sum(c.hi, madd(k, V::set1(-pi_256_3), b.lo + c.lo));
  }
  const auto near = (size < V::set1(0x1p+20)) & ((V::set1(0x1p-34) < absolute(t.hi)) | (k == V::set1(0.0)));
  return {t, shifted, near};
}

// The sine of t and `quarters` of 128 more steps.
template <class V>
REPDL_HD_INLINE Pair<V> sine_of(const Angle<V>& x, int quarters) {
  const V shifted = x.k;
  const V steps = from_pattern<V>(static_cast<std::uint64_t>(128 * quarters)), quarter = from_pattern<V>(128);
  const V j = and_bits(plus_bits(shifted, steps), 511),
          i = and_bits(plus_bits(plus_bits(shifted, steps), quarter), 511);
  const Pair<V> s{look_up(sin_table_hi(), j), look_up(sin_table_lo(), j)};
  const Pair<V> c{look_up(sin_table_hi(), i), look_up(sin_table_lo(), i)};
  const V t = x.t.hi, z = t * t;

  // sin(t) = t + t**3 p, cos(t) = 1 - t**2 / 2 + t**4 q
  V p = madd(z, V::set1(1.0 / 362880), V::set1(-1.0 / 5040));
  p = madd(p, z, V::set1(1.0 / 120));
  p = madd(p, z, V::set1(-1.0 / 6));
  V q = madd(z, V::set1(1.0 / 40320), V::set1(-1.0 / 720));
  q = madd(q, z, V::set1(1.0 / 24));

  const Pair<V> square = two_product(t, t * V::set1(-0.5));
  const Pair<V> first = two_product(c.hi, t), second = two_product(s.hi, square.hi);
  // s is 0, or at least twice as large as c t.
  const Pair<V> a = quick_two_sum(s.hi, first.hi), b = quick_two_sum(a.hi, second.hi);
  // s and c times what is left of the series, and the low parts.
  const V of_cos = madd(q, z * z, madd(-t, x.t.lo, square.lo));
  const V of_sin = madd(p * z, t, madd(square.hi, x.t.lo, x.t.lo));
  const V rest = madd(c.hi, of_sin, madd(s.hi, of_cos, madd(c.lo, t, madd(s.lo, square.hi, s.lo))));
  return quick_two_sum(b.hi, (a.lo + b.lo) + (first.lo + (second.lo + rest)));
}

template <class V>
REPDL_HD_INLINE Rounded<V> sin(V x) {
  const Angle<V> angle = angle_of(x);
  const Rounded<V> y = rounded(sine_of(angle, 0), sin_margins());
  return {zero_kept(x, y.value), y.decided & angle.decided & not_tiny(x)};
}

template <class V>
REPDL_HD_INLINE Rounded<V> cos(V x) {
  const Angle<V> angle = angle_of(x);
  const Rounded<V> y = rounded(sine_of(angle, 1), sin_margins());
  return {y.value, y.decided & angle.decided};
}

template <class V>
REPDL_HD_INLINE Rounded<V> tan(V x) {
  const Angle<V> angle = angle_of(x);
  const Rounded<V> y = rounded(sine_of(angle, 0) / sine_of(angle, 1), 0x1p-66);
  return {zero_kept(x, y.value), y.decided & angle.decided & not_tiny(x)};
}

}  // namespace repdl::exact::double_double
