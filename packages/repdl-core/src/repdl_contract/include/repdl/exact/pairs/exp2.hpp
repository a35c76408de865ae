// exp2 by pairs of floats (pairs.hpp).
//
//   x = k + f,  |f| <= 1 / 2 / entries, without error
//   exp2(x) = 2**n t_j exp(f ln 2 + d_j);  t_j ln 2 is nearly a float, a_j, so that t_j + a_j f leads
//
// t_j and d_j: exp.hpp.
#pragma once

#include "repdl/exact/pairs/exp.hpp"

namespace repdl::exact::pairs {

template <class V>
REPDL_HD_INLINE Rounded<V> exp2(V x) {
  // tools/exact/generate_vec.py
  static constexpr Table<V> slope(
      {0x1.62df6cp-1f, 0x1.6a9dc2p-1f, 0x1.729526p-1f, 0x1.7aacc8p-1f, 0x1.82fcfep-1f, 0x1.8b7466p-1f, 0x1.941de8p-1f,
       0x1.9cf19cp-1f, 0x1.a601d8p-1f, 0x1.af3ccp-1f,  0x1.b8acc2p-1f, 0x1.c2594cp-1f, 0x1.cc33fcp-1f, 0x1.d647bap-1f,
       0x1.e0940cp-1f, 0x1.eb1578p-1f, 0x1.f5db54p-1f, 0x1.0068eep+0f, 0x1.0609e4p+0f, 0x1.0bc724p+0f, 0x1.11a0aep+0f,
       0x1.179dfp+0f,  0x1.1dc06ap+0f, 0x1.240128p+0f, 0x1.2a671ep+0f, 0x1.30f0ccp+0f, 0x1.379a3ep+0f, 0x1.3e6e5cp+0f,
       0x1.4567b2p+0f, 0x1.4c883ap+0f, 0x1.53ce74p+0f, 0x1.5b406p+0f});
  const V z = x + V::set1(0x1p-60f);  // not near a subnormal
  const V shifted = z + V::set1(table_magic<V>), k = shifted - V::set1(table_magic<V>), f = z - k;
  const V t = exp_lower(shifted), a = slope[shifted], d = exp_lower_rest(shifted);
  const V s = fma(a, f, t), s_rest = fma(a, f, t - s);
  const V u = fma(f, V::set1(0x1.62e43p-1f), d), q = fma(exp_polynomial(u) * u, u, d);
  const Rounded<V> y = exp_rounded(DoubleFloat<V>{s, fma(t, q, s_rest)});
  return {scaled(y.value, k, shifted), y.decided & scales(x, 125.0f)};
}

}  // namespace repdl::exact::pairs
