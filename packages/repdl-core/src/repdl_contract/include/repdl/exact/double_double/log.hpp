// log and its kin in double-doubles.
//
//   x = 2**n m, m in [0.703, 1.407), c of 15 bits next to 1 / m:  log(x) = n ln 2 - log(c) + log(1 + r), r = m c - 1
//
// r is exact as a double-double, |r| < 2**-9; around 1 c is 1, so that small results have a small relative error.
// log(1 + r) = r - r**2 / 2 + r**3 / 3 - ...: the first two terms as double-doubles, the others as a double, and a
// relative error below 2**-70; or, `precisely`, the first three terms, and 2**-80.
#pragma once

#include "repdl/exact/double_double/exp.hpp"
#include "repdl/exact/double_double/log_tables.hpp"

namespace repdl::exact::double_double {

// The range of x.hi: normal, with room for the margins of results.
template <class V>
REPDL_HD_INLINE auto log_in_range(V x) {
  return (V::set1(0x1p-1022) < x) & (x < V::set1(0x1.8p+1023));
}

// n of the bits n 2**52, as a number.
template <class V>
REPDL_HD_INLINE V exponent_of(V power) {
  const V biased = right(plus_bits(power, from_pattern<V>(0x3ff0000000000000u)), 52);
  return plus_bits(biased, from_pattern<V>(0x4330000000000000u)) - V::set1(0x1p+52 + 1023);
}

// log(x + lower), |x.lo| at most 2**-53 x.hi, and lower that of x.lo.
template <bool precisely, class V>
REPDL_HD_INLINE Pair<V> log_pair(Pair<V> x, V lower) {
  const V offset = from_pattern<V>(0x3fe6800000000000u);
  const V parts = minus_bits(x.hi, offset);
  const V power = and_bits(parts, 0xfff0000000000000u);
  const V m = minus_bits(x.hi, power), j = and_bits(right(parts, 43), 511);
  const V n = exponent_of(power);
  const V c = look_up(log_inverse(), j);

  const Pair<V> p = two_product(m, c);
  const V low = zero_kept(x.lo, minus_bits(x.lo, power));
  const Pair<V> near = two_sum(p.hi - V::set1(1.0), madd(low, c, p.lo));
  const Pair<V> r{near.hi, madd(zero_kept(lower, minus_bits(lower, power)), c, near.lo)};

  // tail = log(1 + r) - r
  V q = madd(r.hi, V::set1(1.0 / 9), V::set1(-1.0 / 8));
  q = madd(q, r.hi, V::set1(1.0 / 7));
  q = madd(q, r.hi, V::set1(-1.0 / 6));
  q = madd(q, r.hi, V::set1(1.0 / 5));
  q = madd(q, r.hi, V::set1(-1.0 / 4));
  Pair<V> tail;
  if constexpr (precisely) {
    const Pair<V> square = r * r;
    const Pair<V> cube = square * r * Pair<V>{V::set1(0x1.5555555555555p-2), V::set1(0x1.5555555555555p-56)};
    tail = quick_two_sum(square.hi * V::set1(-0.5), cube.hi);
    tail.lo = tail.lo + madd(square.lo, V::set1(-0.5), madd(q, square.hi * square.hi, cube.lo));
  } else {
    q = madd(q, r.hi, V::set1(1.0 / 3));
    tail = two_product(r.hi, r.hi * V::set1(-0.5));
    tail.lo = madd(q * r.hi, r.hi * r.hi, madd(-r.hi, r.lo, tail.lo));
  }
  const V whole = madd(n, V::set1(ln_2_of_log[0]), look_up(log_table_hi(), j));  // exact: multiples of 2**-42
  const Pair<V> a = quick_two_sum(whole, r.hi);
  const Pair<V> s = quick_two_sum(a.hi, tail.hi);
  const V rest = madd(n, V::set1(ln_2_of_log[1]), look_up(log_table_lo(), j)) + (a.lo + (s.lo + (r.lo + tail.lo)));
  return quick_two_sum(s.hi, rest);
}

constexpr double log_margin = 0x1p-68;

template <class V>
REPDL_HD_INLINE Rounded<V> log(V x) {
  const Rounded<V> y = rounded(log_pair<false>(single_pair(x), V::set1(0.0)), log_margin);
  return {y.value, y.decided & log_in_range(x)};
}

template <class V>
REPDL_HD_INLINE Rounded<V> log2(V x) {
  const Rounded<V> y =
      rounded(log_pair<false>(single_pair(x), V::set1(0.0)) * Pair<V>{V::set1(over_ln_2[0]), V::set1(over_ln_2[1])},
              log_margin);
  return {y.value, y.decided & log_in_range(x)};
}

template <class V>
REPDL_HD_INLINE Rounded<V> log10(V x) {
  const Rounded<V> y =
      rounded(log_pair<false>(single_pair(x), V::set1(0.0)) * Pair<V>{V::set1(over_ln_10[0]), V::set1(over_ln_10[1])},
              log_margin);
  return {y.value, y.decided & log_in_range(x)};
}

// log(1 + y) for y above -1
template <class V>
REPDL_HD_INLINE Pair<V> log1p_pair(Pair<V> y) {
  const Pair<V> u = two_sum(V::set1(1.0), y.hi);
  return log_pair<false>(u, y.lo);
}

template <class V>
REPDL_HD_INLINE Rounded<V> log1p(V x) {
  const Rounded<V> y = rounded(log1p_pair(single_pair(x)), log_margin);
  return {zero_kept(x, y.value), y.decided & not_tiny(x) & (V::set1(-1.0) < x) & (x < V::set1(0x1p+1000))};
}

// |x| as log(1 + a + a**2 / (1 + sqrt(1 + a**2)))
template <class V>
REPDL_HD_INLINE Rounded<V> asinh(V x) {
  const V a = absolute(x);
  const Pair<V> square = two_product(a, a);
  const Pair<V> whole = square / (root(square + V::set1(1.0)) + V::set1(1.0)) + a;
  const Rounded<V> y = rounded(log1p_pair(whole), log_margin);
  const auto plain = (V::set1(0x1p-400) < a) & (a < V::set1(0x1p+400));
  return {with_sign(y.value, x), y.decided & (plain | (x == V::set1(0.0)))};
}

// log(1 + t + sqrt(t (t + 2))) with t = x - 1
template <class V>
REPDL_HD_INLINE Rounded<V> acosh(V x) {
  const Pair<V> above = two_sum(x, V::set1(-1.0)), more = two_sum(x, V::set1(1.0));
  const Rounded<V> y = rounded(log1p_pair(above + root(above * more)), log_margin);
  return {y.value, y.decided & (V::set1(1.0) < x) & (x < V::set1(0x1p+400))};
}

// log(1 + 2 a / (1 - a)) / 2 with a = |x|
template <class V>
REPDL_HD_INLINE Rounded<V> atanh(V x) {
  const V a = absolute(x), zero = V::set1(0.0);
  const Pair<V> ratio = Pair<V>{a + a, zero} / two_sum(V::set1(1.0), -a);
  const Rounded<V> y = rounded(log1p_pair(ratio), log_margin);
  const auto plain = (V::set1(0x1p-900) < a) & (a < V::set1(1.0));
  return {with_sign(y.value * V::set1(0.5), x), y.decided & (plain | (x == zero))};
}

}  // namespace repdl::exact::double_double
