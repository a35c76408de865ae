// exp by pairs of floats (pairs.hpp), and what other functions take of it.
//
//   x = k ln 2 + r,  |r| <= ln 2 / 2 / entries,  k = n + j / entries
//   exp(x) = 2**n * t_j * exp(r + d_j),  t_j a float a little below 2**(j / entries), 2**-14 < d_j < 2**-13
//
// t_j exp(r + d_j) is kept as s + rest, 0 < rest < 2**-11, with an error below exp_margin rest. Near the ends of
// the range the double function decides.
#pragma once

#include "repdl/exact/pairs/pairs.hpp"

namespace repdl::exact::pairs {

template <class V>
constexpr float exp_margin = entries<V> == 32 ? 0x1p-22f : 0x1.8p-22f;

// t_j and d_j, of which shifted tells j. d_j is larger than a subnormal r, and so is what is made of their sum.
template <class V>
REPDL_HD_INLINE V exp_lower(V shifted) {
  // tools/exact/generate_vec.py
  static constexpr Table<V> t_table(
      {0x1.fff92p-1f,  0x1.059284p+0f, 0x1.0b51ap+0f,  0x1.1127fep+0f, 0x1.17272cp+0f, 0x1.1d42ap+0f,  0x1.238238p+0f,
       0x1.29e04p+0f,  0x1.3069f2p+0f, 0x1.37126cp+0f, 0x1.3de134p+0f, 0x1.44dba6p+0f, 0x1.4bf762p+0f, 0x1.533c46p+0f,
       0x1.5aa9fap+0f, 0x1.623dfcp+0f, 0x1.6a035cp+0f, 0x1.71ebd8p+0f, 0x1.7a0ab6p+0f, 0x1.825264p+0f, 0x1.8ac2e2p+0f,
       0x1.9366e8p+0f, 0x1.9c40ap+0f,  0x1.a54602p+0f, 0x1.ae8116p+0f, 0x1.b7efb2p+0f, 0x1.c18c22p+0f, 0x1.cb6622p+0f,
       0x1.d575d4p+0f, 0x1.dfbe12p+0f, 0x1.ea3cb2p+0f, 0x1.f4fa5cp+0f});
  return t_table[shifted];
}

template <class V>
REPDL_HD_INLINE V exp_lower_rest(V shifted) {
  // tools/exact/generate_vec.py
  static constexpr Table<V> d_table(
      {0x1.b802f4p-15f, 0x1.0b5028p-13f, 0x1.de3ef6p-15f, 0x1.e71422p-14f, 0x1.fdc4e6p-15f, 0x1.4e85a2p-14f,
       0x1.315bbap-14f, 0x1.089c6ep-13f, 0x1.3f442cp-14f, 0x1.a6de22p-14f, 0x1.d9a9acp-14f, 0x1.ebbad6p-15f,
       0x1.36a312p-14f, 0x1.36c9eap-14f, 0x1.33e5fp-14f,  0x1.cb6a22p-14f, 0x1.2801a4p-14f, 0x1.fe71bep-14f,
       0x1.1c9d32p-14f, 0x1.075466p-14f, 0x1.db042ep-14f, 0x1.feac66p-14f, 0x1.509524p-14f, 0x1.8d93f4p-14f,
       0x1.524806p-14f, 0x1.203452p-14f, 0x1.eff32p-14f,  0x1.a92228p-14f, 0x1.99351p-14f,  0x1.849e9ap-14f,
       0x1.dd4826p-14f, 0x1.aa5f2cp-14f});
  return d_table[shifted];
}

// A subnormal intermediate result costs some processors a hundred cycles. Where k = 0 and r is tiny,
// r + nudge and what is made of it are not subnormal, and exp does not see 2**-60.
constexpr float exp_nudge = 0x1p-60f;

// The same for t_j next to 2**(j / entries), so that t_0 = 1 and d_0 = 0 or so.
template <class V>
REPDL_HD_INLINE V exp_nearest(V shifted) {
  // tools/exact/generate_vec.py
  static constexpr Table<V> t_table(
      {0x1p+0f,        0x1.059b0ep+0f, 0x1.0b5586p+0f, 0x1.11301ep+0f, 0x1.172b84p+0f, 0x1.1d4874p+0f, 0x1.2387a6p+0f,
       0x1.29e9ep+0f,  0x1.306fep+0f,  0x1.371a74p+0f, 0x1.3dea64p+0f, 0x1.44e086p+0f, 0x1.4bfdaep+0f, 0x1.5342b6p+0f,
       0x1.5ab07ep+0f, 0x1.6247ecp+0f, 0x1.6a09e6p+0f, 0x1.71f75ep+0f, 0x1.7a1148p+0f, 0x1.82589ap+0f, 0x1.8ace54p+0f,
       0x1.93737cp+0f, 0x1.9c4918p+0f, 0x1.a5503cp+0f, 0x1.ae89fap+0f, 0x1.b7f77p+0f,  0x1.c199bep+0f, 0x1.cb720ep+0f,
       0x1.d5818ep+0f, 0x1.dfc974p+0f, 0x1.ea4afap+0f, 0x1.f50766p+0f});
  return t_table[shifted];
}

template <bool nudged, class V>
REPDL_HD_INLINE V exp_nearest_rest(V shifted) {
  // tools/exact/generate_vec.py
  static constexpr Table<V> d_table({nudged ? exp_nudge : 0x0p+0f,
                                     -0x1.947416p-25f,
                                     0x1.8d96d4p-25f,
                                     -0x1.dda2fep-25f,
                                     -0x1.9c0c22p-27f,
                                     -0x1.a2fbb4p-25f,
                                     0x1.964902p-25f,
                                     -0x1.2b0dbcp-25f,
                                     0x1.125002p-25f,
                                     -0x1.cde8cep-26f,
                                     0x1.370be4p-25f,
                                     0x1.336de2p-30f,
                                     -0x1.0a3552p-25f,
                                     -0x1.c541b6p-26f,
                                     -0x1.00d8acp-27f,
                                     -0x1.6cb284p-25f,
                                     0x1.26055cp-26f,
                                     0x1.8b2bb8p-26f,
                                     -0x1.05cb44p-25f,
                                     -0x1.1c2142p-26f,
                                     0x1.67a1cap-28f,
                                     -0x1.348e56p-25f,
                                     0x1.a3b5e4p-28f,
                                     -0x1.0b7ec8p-25f,
                                     -0x1.f9c306p-27f,
                                     -0x1.e4c886p-26f,
                                     -0x1.6961b4p-28f,
                                     -0x1.b5151ep-28f,
                                     -0x1.a5217cp-28f,
                                     -0x1.ab7132p-26f,
                                     0x1.61428ep-28f,
                                     -0x1.2ad5f8p-27f});
  return d_table[shifted];
}

// (exp(u) - 1 - u) / u**2
template <class V>
REPDL_HD_INLINE V exp_polynomial(V u) {
  // tools/exact/generate_vec.py
  constexpr bool wide = entries<V> == 32;
  const V q = fma(V::set1(wide ? 0x1.555598p-5f : 0x1.55565cp-5f), u, V::set1(wide ? 0x1.5555b8p-3f : 0x1.5556ep-3f));
  return fma(q, u, V::set1(0.5f));
}

// x = k ln 2 + r + low with k + table_magic = shifted, |r| <= ln 2 / 2 / entries, low with d_j.
template <class V>
struct ExpReduced {
  V k, shifted, r, low;
};

template <auto rest, class V>
REPDL_HD_INLINE ExpReduced<V> exp_reduced(V x) {
  const V shifted = fma(x, V::set1(0x1.715476p+0f), V::set1(table_magic<V>));
  const V k = shifted - V::set1(table_magic<V>);
  const V r = fma(k, V::set1(-0x1.62e43p-1f), x);                          // exact: ln 2 to 21 bits
  return {k, shifted, r, fma(k, V::set1(0x1.05c61p-29f), rest(shifted))};  // the rest of ln 2
}

// exp(x) = 2**floor(k) t (1 + r + q), t in [1, 2) or a little less, shifted = k + table_magic.
template <class V>
struct ExpVecParts {
  V k, shifted, t, r, q;

  // The same without 2**n, for any scale of t.
  REPDL_HD_INLINE DoubleFloat<V> times(V t) const {
    const V s = fma(t, r, t);
    return {s, fma(t, q, fma(t, r, t - s))};
  }
};

template <auto table, auto rest, class V>
REPDL_HD_INLINE ExpVecParts<V> exp_vec_parts(V x) {
  const ExpReduced<V> e = exp_reduced<rest>(x);
  const V u = e.r + e.low;
  return {e.k, e.shifted, table(e.shifted), e.r, fma(exp_polynomial(u) * u, u, e.low)};
}

// s + rest rounded, rest > 0.
template <class V>
REPDL_HD_INLINE Rounded<V> exp_rounded(DoubleFloat<V> y) {
  const V below = fma(y.lo, V::set1(1 - exp_margin<V>), y.hi), above = fma(y.lo, V::set1(1 + exp_margin<V>), y.hi);
  return {below, below == above};
}

// `lower` and `lower_rest`: exp_lower and exp_lower_rest, however they are looked up.
template <auto lower, auto lower_rest, class V>
REPDL_HD_INLINE Rounded<V> exp_with_tables(V x) {
  const ExpVecParts<V> e = exp_vec_parts<lower, lower_rest>(x);
  const Rounded<V> y = exp_rounded(e.times(e.t));
  return {scaled(y.value, e.k, e.shifted), y.decided & scales(x, 87.0f)};
}

template <class V>
REPDL_HD_INLINE Rounded<V> exp(V x) {
  return exp_with_tables<exp_lower<V>, exp_lower_rest<V>>(x);
}

}  // namespace repdl::exact::pairs
