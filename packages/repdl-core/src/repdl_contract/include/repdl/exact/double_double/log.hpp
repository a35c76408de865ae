// log and its kin in double-doubles.
//
//   x = 2**n m, m in [0.703, 1.407), c of 15 bits next to 1 / m:  log(x) = n ln 2 - log(c) + log(1 + r), r = m c - 1
//
// r is exact as a double-double, |r| < 2**-9; around 1 c is 1, so that small results have a small relative error.
// log(1 + r) = r - r**2 / 2 + r**3 / 3 - ...: the first two terms as double-doubles, the others as a double, and a
// relative error below 2**-69; or, `precisely`, the first three terms, and 2**-80.
#pragma once

#include "repdl/exact/double_double/exp.hpp"
#include "repdl/exact/double_double/log_tables.hpp"

namespace repdl::exact::double_double {

// The range of x.hi: normal, with room for the margins of results.
template <class V>
REPDL_HD_INLINE auto log_in_range(V x) {
  return (V::set1(0x1p-1022) < x) & (x < V::set1(0x1.8p+1023));
}

// x = 2**n m, and m next to 1 / c.
template <class V>
struct LogParts {
  V power;  // n in the exponent of a double
  V m, j, c;
};

template <class V>
REPDL_HD_INLINE LogParts<V> log_parts(V x) {
  const V parts = minus_bits(x, from_pattern<V>(0x3fe6800000000000u));
  const V power = and_bits(parts, 0xfff0000000000000u), j = and_bits(right(parts, 43), 511);
  return {power, minus_bits(x, power), j, look_up(log_inverse(), j)};
}

// n ln 2 - log(c) + log(1 + r)
template <bool precisely, class V>
REPDL_HD_INLINE Pair<V> log_of(const LogParts<V>& x, Pair<V> r) {
  // tail = log(1 + r) - r
  V q = V::set1(-1.0 / 8);
  if constexpr (precisely) q = madd(r.hi, V::set1(1.0 / 9), q);
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
  const V n = exponent_of(x.power);
  const V whole = madd(n, V::set1(ln_2_of_log_0), look_up(log_table_hi(), x.j));  // exact: multiples of 2**-42
  const Pair<V> a = quick_two_sum(whole, r.hi);
  const Pair<V> s = quick_two_sum(a.hi, tail.hi);
  const V low = madd(n, V::set1(ln_2_of_log_1), look_up(log_table_lo(), x.j));
  const V rest = low + (a.lo + (s.lo + (r.lo + tail.lo)));
  return quick_two_sum(s.hi, rest);
}

template <bool precisely = false, class V>
REPDL_HD_INLINE Pair<V> log_pair(V x) {
  const LogParts<V> parts = log_parts(x);
  const Pair<V> p = two_product(parts.m, parts.c);
  return log_of<precisely>(parts, quick_two_sum(p.hi - V::set1(1.0), p.lo));
}

// log(x + lower), |x.lo| at most 2**-53 x.hi, and lower that of x.lo.
template <class V>
REPDL_HD_INLINE Pair<V> log_pair(Pair<V> x, V lower) {
  const LogParts<V> parts = log_parts(x.hi);
  const Pair<V> p = two_product(parts.m, parts.c);
  const V low = zero_kept(x.lo, minus_bits(x.lo, parts.power));
  const V lowest = zero_kept(lower, minus_bits(lower, parts.power));
  const Pair<V> near = two_sum(p.hi - V::set1(1.0), madd(low, parts.c, p.lo));
  return log_of<false>(parts, {near.hi, madd(lowest, parts.c, near.lo)});
}

REPDL_HD_INLINE constexpr Margins log_margins() { return {0x1p-4, 0x1p-68, 0x1p-73}; }
// Of a sum with a lower part, r**2 times which is left out.
REPDL_HD_INLINE constexpr Margins log_of_pair_margins() { return {0x1p-4, 0x1p-68, 0x1p-70}; }

template <class V>
REPDL_HD_INLINE Rounded<V> log(V x) {
  const Rounded<V> y = rounded(log_pair(x), log_margins());
  return {y.value, y.decided & log_in_range(x)};
}

template <class V>
REPDL_HD_INLINE Rounded<V> log2(V x) {
  const Rounded<V> y = rounded(log_pair(x) * Pair<V>{V::set1(over_ln_2_0), V::set1(over_ln_2_1)}, log_margins());
  return {y.value, y.decided & log_in_range(x)};
}

template <class V>
REPDL_HD_INLINE Rounded<V> log10(V x) {
  const Rounded<V> y = rounded(log_pair(x) * Pair<V>{V::set1(over_ln_10_0), V::set1(over_ln_10_1)}, log_margins());
  return {y.value, y.decided & log_in_range(x)};
}

// log(1 + y) for y above -1
template <class V>
REPDL_HD_INLINE Pair<V> log1p_pair(Pair<V> y) {
  const Pair<V> u = two_sum(V::set1(1.0), y.hi);
  return log_pair(u, y.lo);
}

template <class V>
REPDL_HD_INLINE Rounded<V> log1p(V x) {
  const Rounded<V> y = rounded(log1p_pair(single_pair(x)), log_margins());
  return {zero_kept(x, y.value), y.decided & not_tiny(x) & (V::set1(-1.0) < x) & (x < V::set1(0x1p+1000))};
}

// |x| as log(1 + a + a**2 / (1 + sqrt(1 + a**2)))
template <class V>
REPDL_HD_INLINE Rounded<V> asinh(V x) {
  const V a = absolute(x);
  const Pair<V> square = two_product(a, a);
  const Pair<V> whole = square / (root(square + V::set1(1.0)) + V::set1(1.0)) + a;
  const Rounded<V> y = rounded(log1p_pair(whole), log_of_pair_margins());
  const auto plain = (V::set1(0x1p-400) < a) & (a < V::set1(0x1p+400));
  return {with_sign(y.value, x), y.decided & (plain | (x == V::set1(0.0)))};
}

// log(1 + t + sqrt(t (t + 2))) with t = x - 1
template <class V>
REPDL_HD_INLINE Rounded<V> acosh(V x) {
  const Pair<V> above = two_sum(x, V::set1(-1.0)), more = two_sum(x, V::set1(1.0));
  const Rounded<V> y = rounded(log1p_pair(above + root(above * more)), log_of_pair_margins());
  return {y.value, y.decided & (V::set1(1.0) < x) & (x < V::set1(0x1p+400))};
}

// log(1 + 2 a / (1 - a)) / 2 with a = |x|
template <class V>
REPDL_HD_INLINE Rounded<V> atanh(V x) {
  const V a = absolute(x), zero = V::set1(0.0);
  const Pair<V> ratio = Pair<V>{a + a, zero} / two_sum(V::set1(1.0), -a);
  const Rounded<V> y = rounded(log1p_pair(ratio), log_of_pair_margins());
  const auto plain = (V::set1(0x1p-900) < a) & (a < V::set1(1.0));
  return {with_sign(y.value * V::set1(0.5), x), y.decided & (plain | (x == zero))};
}

}  // namespace repdl::exact::double_double
