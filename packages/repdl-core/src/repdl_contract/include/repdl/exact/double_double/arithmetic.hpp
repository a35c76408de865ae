// Double-doubles: values kept as the sum of two doubles, about 2**-104 relatively, for the fast paths of the exact
// functions of doubles. Templates over a vector of doubles V, `Vec64` of a CPU or `Double` (scalar.hpp).
//
// A fast path computes hi + lo with a relative error below a margin, which the function's text derives. Where both
// ends of that interval round to the same double, that double is the exact result rounded once (A. Ziv, "Fast
// evaluation of elementary mathematical functions with correctly rounded last bit", ACM TOMS 17(3), 1991);
// elsewhere, and outside of the range of the path, accurate.hpp decides. So results depend neither on the width
// of V nor on whether the target has fused multiply-adds.
//
// A vector V has, found by its namespace: + - * / and < == |, &, madd, product_error, select, everywhere, absolute,
// with_sign, root, functions of bits (plus_bits, and_bits, left, ...), exponent_of and look_up; static set1.
#pragma once

#include "repdl/contract/bits.hpp"

namespace repdl::exact::double_double {

template <class V>
struct Pair {
  V hi, lo;
};

template <class V>
REPDL_HD_INLINE Pair<V> single_pair(V x) {
  return {x, V::set1(0.0)};
}

// What comparisons of V give.
template <class V>
using bool_of = decltype(V() < V());

// The double with these bits.
template <class V>
REPDL_HD_INLINE V from_pattern(std::uint64_t bits) {
  return V::set1(from_bits(bits));
}

// a + b, exactly
template <class V>
REPDL_HD_INLINE Pair<V> two_sum(V a, V b) {
  const V s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}

// The same for |a| >= |b|, or a = 0.
template <class V>
REPDL_HD_INLINE Pair<V> quick_two_sum(V a, V b) {
  const V s = a + b;
  return {s, b - (s - a)};
}

// a * b, exactly
template <class V>
REPDL_HD_INLINE Pair<V> two_product(V a, V b) {
  const V p = a * b;
  return {p, product_error(a, b, p)};
}

template <class V>
REPDL_HD_INLINE Pair<V> operator+(Pair<V> a, Pair<V> b) {
  const Pair<V> s = two_sum(a.hi, b.hi), t = two_sum(a.lo, b.lo);
  const Pair<V> u = quick_two_sum(s.hi, s.lo + t.hi);
  return quick_two_sum(u.hi, u.lo + t.lo);
}

template <class V>
REPDL_HD_INLINE Pair<V> operator+(Pair<V> a, V b) {
  const Pair<V> s = two_sum(a.hi, b);
  return quick_two_sum(s.hi, s.lo + a.lo);
}

template <class V>
REPDL_HD_INLINE Pair<V> operator-(Pair<V> a) {
  return {-a.hi, -a.lo};
}

template <class V>
REPDL_HD_INLINE Pair<V> operator-(Pair<V> a, Pair<V> b) {
  return a + -b;
}

template <class V>
REPDL_HD_INLINE Pair<V> operator-(V a, Pair<V> b) {
  return -b + a;
}

// a b, whose lower part may be larger than half of an ulp.
template <class V>
REPDL_HD_INLINE Pair<V> product(Pair<V> a, Pair<V> b) {
  const Pair<V> p = two_product(a.hi, b.hi);
  return {p.hi, p.lo + madd(a.hi, b.lo, a.lo * b.hi)};
}

template <class V>
REPDL_HD_INLINE Pair<V> product(Pair<V> a, V b) {
  const Pair<V> p = two_product(a.hi, b);
  return {p.hi, madd(a.lo, b, p.lo)};
}

template <class V>
REPDL_HD_INLINE Pair<V> operator*(Pair<V> a, Pair<V> b) {
  const Pair<V> p = product(a, b);
  return quick_two_sum(p.hi, p.lo);
}

template <class V>
REPDL_HD_INLINE Pair<V> operator*(Pair<V> a, V b) {
  const Pair<V> p = product(a, b);
  return quick_two_sum(p.hi, p.lo);
}

template <class V>
REPDL_HD_INLINE Pair<V> operator/(Pair<V> a, Pair<V> b) {
  const V inverse = V::set1(1.0) / b.hi, q = a.hi * inverse;
  const Pair<V> p = two_product(q, b.hi);
  const V rest = ((a.hi - p.hi) - p.lo) + madd(-q, b.lo, a.lo);
  return quick_two_sum(q, rest * inverse);
}

template <class V>
REPDL_HD_INLINE Pair<V> root(Pair<V> a) {
  const V r = root(a.hi);
  const Pair<V> p = two_product(r, r);
  const V rest = ((a.hi - p.hi) - p.lo) + a.lo;
  return quick_two_sum(r, rest / (r + r));
}

template <class V>
struct Rounded {
  V value;
  bool_of<V> decided;
};

// By what lo grows where hi may have an error of margin |hi|.
REPDL_HD_INLINE constexpr double growth(double margin) { return 1.0 + margin * 0x1p+54; }

// hi, which is hi + lo rounded; decided where an error of margin |hi| does not change it. That can only be where lo is
// nearly half of an ulp, which is 2**-54 |hi| at least: there it grows by margin |hi| at least.
template <class V>
REPDL_HD_INLINE Rounded<V> rounded_grown(Pair<V> y, V grown) {
  return {y.hi, y.hi == madd(y.lo, grown, y.hi)};
}
template <class V>
REPDL_HD_INLINE Rounded<V> rounded(Pair<V> y, double margin) {
  return rounded_grown(y, V::set1(growth(margin)));
}

// Of a result whose error is absolute: relative to results from `limit` on it is smaller.
struct Margins {
  double limit, below, from;
};
template <class V>
REPDL_HD_INLINE Rounded<V> rounded(Pair<V> y, const Margins& margins) {
  const auto small = absolute(y.hi) < V::set1(margins.limit);
  return rounded_grown(y, select(small, V::set1(growth(margins.below)), V::set1(growth(margins.from))));
}

// 1 / sqrt(x): r in double, and Newton's step r (1 - x r**2) / 2 for what is left, (1 - x r**2) exact to 2**-104.
template <class V>
REPDL_HD_INLINE Rounded<V> rsqrt(V x) {
  const V r = V::set1(1.0) / root(x);
  const Pair<V> square = two_product(r, r), p = two_product(square.hi, x);
  const V rest = (V::set1(1.0) - p.hi) - madd(square.lo, x, p.lo);
  const Rounded<V> y = rounded(quick_two_sum(r, r * rest * V::set1(0.5)), 0x1p-98);
  return {y.value, y.decided & (V::set1(0x1p-900) < x) & (x < V::set1(0x1p+900))};
}

}  // namespace repdl::exact::double_double
