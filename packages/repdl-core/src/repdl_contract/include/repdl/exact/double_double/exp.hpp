// exp and its kin in double-doubles.
//
//   x = k ln 2 / 256 + r, |r| < 2**-9.5, k = 256 n + j:  exp(x) = 2**n t_j (1 + p), p = exp(r) - 1
//
// The double-double p is r, rounded, and what is left of r with r**2 (1/2 + ...), below 2**-20, whose rounding is the
// largest error: that of 1 + p is below 2**-70.7. Or, `precisely`, the rounding error of r**2 / 2 is kept, and p itself
// has a relative error below 2**-71.8.
#pragma once

#include "repdl/exact/double_double/arithmetic.hpp"
#include "repdl/exact/double_double/exp_tables.hpp"

namespace repdl::exact::double_double {

constexpr double exp_margin = 0x1p-70;

// x = k ln 2 / 256 + r + low
template <class V>
struct ExpRest {
  V shifted;  // k + 2**52 * 1.5
  V r, low;
};

// For |x| < 746; lower is what x lacks.
template <class V>
REPDL_HD_INLINE ExpRest<V> exp_rest(V x, V lower) {
  const V magic = V::set1(0x1.8p+52);
  const V shifted = madd(x, V::set1(0x1.71547652b82fep+8), magic), k = shifted - magic;
  const V a = madd(k, V::set1(-ln_2_256_0), x);  // exact: 34 bits of ln 2 / 256, 19 of k
  // The product has 53 bits at most, so that the first difference is the only rounding: below 2**-98 k.
  const V r = madd(k, V::set1(-ln_2_256_1), a), left = madd(k, V::set1(-ln_2_256_1), a - r);
  const V low = madd(k, V::set1(-ln_2_256_2), lower);
  return {shifted, r, left + low};
}

// exp(x) = scale (table.hi + table.lo) (1 + p.hi + p.lo)
template <class V>
struct ExpParts {
  V power;  // to be added to the bits of a double: n in its exponent
  Pair<V> table, p;
};

// low is below 2**-48.
template <bool precisely, class V>
REPDL_HD_INLINE ExpParts<V> exp_parts(const ExpRest<V>& x) {
  const V r = x.r, square = r * r, low = madd(r, x.low, x.low);
  V q = V::set1(1.0 / 720);
  if constexpr (precisely) q = madd(r, V::set1(1.0 / 5040), q);
  q = madd(q, r, V::set1(1.0 / 120));
  q = madd(q, r, V::set1(1.0 / 24));
  q = madd(q, r, V::set1(1.0 / 6));
  Pair<V> p;
  if constexpr (precisely) {
    const Pair<V> half = two_product(r, r * V::set1(0.5));
    p = quick_two_sum(r, half.hi);
    p.lo = madd(q * r, square, low + (half.lo + p.lo));
  } else {
    p = {r, madd(madd(q, r, V::set1(0.5)), square, low)};
  }
  const V j = and_bits(x.shifted, 255), power = left(and_bits(x.shifted, ~std::uint64_t{255}), 44);
  return {power, {look_up(exp_table_hi(), j), look_up(exp_table_lo(), j)}, p};
}

template <bool precisely = false, class V>
REPDL_HD_INLINE ExpParts<V> exp_parts(V x) {
  return exp_parts<precisely>(exp_rest(x, V::set1(0.0)));
}

template <class V>
REPDL_HD_INLINE ExpParts<V> exp_parts(Pair<V> x) {
  const ExpRest<V> rest = exp_rest(x.hi, x.lo);
  const Pair<V> r = two_sum(rest.r, rest.low);
  return exp_parts<false>(ExpRest<V>{rest.shifted, r.hi, r.lo});
}

// exp(x), without its scale.
template <class V>
REPDL_HD_INLINE Pair<V> unscaled(const ExpParts<V>& e) {
  const Pair<V> m = two_product(e.table.hi, e.p.hi), s = quick_two_sum(e.table.hi, m.hi);
  const V rest = madd(e.table.lo, e.p.hi, madd(e.table.hi, e.p.lo, m.lo + e.table.lo));
  return quick_two_sum(s.hi, s.lo + rest);
}

// x 2**n for normal results
template <class V>
REPDL_HD_INLINE Pair<V> scaled(Pair<V> x, V power) {
  const V scale = plus_bits(V::set1(1.0), power);
  return {x.hi * scale, x.lo * scale};
}

template <class V>
REPDL_HD_INLINE Rounded<V> exp(V x) {
  const ExpParts<V> e = exp_parts(x);
  const Rounded<V> y = rounded(unscaled(e), exp_margin);
  return {plus_bits(y.value, e.power), y.decided & (absolute(x) < V::set1(708.0))};
}

template <class V>
REPDL_HD_INLINE Rounded<V> exp2(V x) {
  const Pair<V> t = two_product(x, V::set1(ln_2_pair_0));
  const ExpParts<V> e = exp_parts(Pair<V>{t.hi, madd(x, V::set1(ln_2_pair_1), t.lo)});
  const Rounded<V> y = rounded(unscaled(e), exp_margin);
  return {plus_bits(y.value, e.power), y.decided & (absolute(x) < V::set1(1021.0))};
}

// exp(x) - 1 = (scale t_j - 1) + scale t_j p: where k = 0 that is p, elsewhere it is 2**-10 at least. For x above
// -745 and below 708.
template <class V>
REPDL_HD_INLINE Pair<V> expm1_pair(V x) {
  const ExpParts<V> e = exp_parts<true>(x);
  const Pair<V> table = scaled(e.table, e.power);
  const Pair<V> whole = two_sum(table.hi, V::set1(-1.0)), m = two_product(table.hi, e.p.hi);
  const Pair<V> s = two_sum(whole.hi, m.hi);
  const V rest = madd(table.lo, e.p.hi, madd(table.hi, e.p.lo, m.lo + table.lo));
  return quick_two_sum(s.hi, (s.lo + whole.lo) + rest);
}

constexpr double expm1_margin = 0x1p-70;

// Whether products of |x| and margins are no subnormal numbers, or x is 0.
template <class V>
REPDL_HD_INLINE auto not_tiny(V x) {
  return (V::set1(0x1p-900) < absolute(x)) | (x == V::set1(0.0));
}

// What fast paths of odd functions give for x: zeros are kept.
template <class V>
REPDL_HD_INLINE V zero_kept(V x, V y) {
  return select(x == V::set1(0.0), x, y);
}

template <class V>
REPDL_HD_INLINE V smaller(V a, V b) {
  return select(a < b, a, b);
}

template <class V>
REPDL_HD_INLINE V bounded(V x, double low, double high) {
  const V above = select(x < V::set1(low), V::set1(low), x);
  return select(V::set1(high) < above, V::set1(high), above);
}

template <class V>
REPDL_HD_INLINE Rounded<V> expm1(V x) {
  const Rounded<V> y = rounded(expm1_pair(bounded(x, -64.0, 709.0)), expm1_margin);
  return {zero_kept(x, y.value), y.decided & (x < V::set1(708.0)) & not_tiny(x)};
}

// 1 / (1 + exp(-x))
template <class V>
REPDL_HD_INLINE Rounded<V> sigmoid(V x) {
  const V z = bounded(V::set1(0.0) - x, -64.0, 709.0);
  const ExpParts<V> e = exp_parts(z);
  const Pair<V> y = Pair<V>{V::set1(1.0), V::set1(0.0)} / (scaled(unscaled(e), e.power) + V::set1(1.0));
  const Rounded<V> result = rounded(y, exp_margin);
  return {result.value, result.decided & (V::set1(-600.0) < x)};  // its lower part is a normal number
}

// e / (e + 2) with e = exp(2 |x|) - 1
template <class V>
REPDL_HD_INLINE Rounded<V> tanh(V x) {
  const V size = absolute(x), z = smaller(V::set1(20.0), size);
  const Pair<V> e = expm1_pair(z + z);
  const Rounded<V> y = rounded(e / (e + V::set1(2.0)), expm1_margin);
  return {with_sign(y.value, x), y.decided & not_tiny(x) & (x == x)};
}

// (e + e / (e + 1)) / 2 with e = exp(|x|) - 1
template <class V>
REPDL_HD_INLINE Rounded<V> sinh(V x) {
  const V size = absolute(x);
  const Pair<V> e = expm1_pair(smaller(size, V::set1(709.0)));
  const Pair<V> sum = e + e / (e + V::set1(1.0));
  const Rounded<V> y = rounded(sum, expm1_margin);
  return {with_sign(y.value * V::set1(0.5), x), y.decided & not_tiny(x) & (size < V::set1(708.0))};
}

template <class V>
REPDL_HD_INLINE Rounded<V> cosh(V x) {
  const V size = absolute(x);
  const ExpParts<V> parts = exp_parts(smaller(size, V::set1(709.0)));
  const Pair<V> e = scaled(unscaled(parts), parts.power);
  const Rounded<V> y = rounded(e + Pair<V>{V::set1(1.0), V::set1(0.0)} / e, exp_margin);
  return {y.value * V::set1(0.5), y.decided & (size < V::set1(708.0))};
}

}  // namespace repdl::exact::double_double
