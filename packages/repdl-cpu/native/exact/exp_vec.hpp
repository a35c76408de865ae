// exp of a whole Vec: the bits of repdl/exact/exp.hpp, most of the time without doubles.
//
//   x = k ln 2 + r,  |r| <= ln 2 / 2 / entries,  k = n + j / entries
//   exp(x) = 2**n * t_j * exp(r + d_j),  t_j = 2**(j / entries) rounded to float
//
// t_j exp(r + d_j) is kept as s + rest, a float and its correction, with an error below
// `exp_margin`. Where both ends of that interval round to the same float, that float is the
// exact result, rounded once; elsewhere, and near the ends of the range, the double function
// decides. Each element is decided on its own, so that tools/exact/prove.py proves this
// function too, on all 2**32 arguments.
#pragma once

#include "repdl/exact/exp.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

// exp(x) = 2**floor(k) t (1 + r + q), t in [1, 2), shifted = k + table_magic.
struct ExpVecParts {
  Vec k, shifted, t, r, q;

  // The same without 2**n, for any scale of t.
  FloatSum times(Vec t) const {
    const Vec s = fma(t, r, t);
    return {s, fma(t, q, fma(t, r, t - s))};
  }
};

// The largest error of s + rest that was measured is 2**-34.99 with 32 entries, 2**-33.19 with 16.
constexpr float exp_margin = 0x1.18p-35f * (32 / table_entries) * (32 / table_entries);

// A subnormal intermediate result costs some processors a hundred cycles. Where k = 0 and r is tiny,
// r + nudge and what is made of it are not subnormal, and exp does not see 2**-60.
constexpr float exp_nudge = 0x1p-60f;

// d_j, of which k tells j, and d_0 = `first`, 0 or so.
template <bool nudged>
inline Vec exp_table_rest(Vec shifted) {
  // tools/exact/generate_vec.py
  static constexpr Table d_table({nudged ? exp_nudge : 0x0p+0f,
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

// t_j, of which k tells j.
inline Vec exp_table(Vec shifted) {
  // tools/exact/generate_vec.py
  static constexpr Table t_table(
      {0x1p+0f,        0x1.059b0ep+0f, 0x1.0b5586p+0f, 0x1.11301ep+0f, 0x1.172b84p+0f, 0x1.1d4874p+0f, 0x1.2387a6p+0f,
       0x1.29e9ep+0f,  0x1.306fep+0f,  0x1.371a74p+0f, 0x1.3dea64p+0f, 0x1.44e086p+0f, 0x1.4bfdaep+0f, 0x1.5342b6p+0f,
       0x1.5ab07ep+0f, 0x1.6247ecp+0f, 0x1.6a09e6p+0f, 0x1.71f75ep+0f, 0x1.7a1148p+0f, 0x1.82589ap+0f, 0x1.8ace54p+0f,
       0x1.93737cp+0f, 0x1.9c4918p+0f, 0x1.a5503cp+0f, 0x1.ae89fap+0f, 0x1.b7f77p+0f,  0x1.c199bep+0f, 0x1.cb720ep+0f,
       0x1.d5818ep+0f, 0x1.dfc974p+0f, 0x1.ea4afap+0f, 0x1.f50766p+0f});
  return t_table[shifted];
}

// x = k ln 2 + r + low + d_j with k + table_magic = shifted, |r| <= ln 2 / 2 / entries; without `nudged`,
// low is 0 where k is.
struct ExpReduced {
  Vec k, shifted, r, low;
};

template <bool nudged>
inline ExpReduced exp_reduced(Vec x) {
  const Vec shifted = fma(x, Vec::set1(0x1.715476p+0f), Vec::set1(table_magic));
  const Vec k = shifted - Vec::set1(table_magic);
  const Vec r = fma(k, Vec::set1(-0x1.62e43p-1f), x);                                          // exact: ln 2 to 21 bits
  return {k, shifted, r, fma(k, Vec::set1(0x1.05c61p-29f), exp_table_rest<nudged>(shifted))};  // the rest of ln 2
}

inline ExpVecParts exp_vec_parts(ExpReduced x) {
  // exp(r + low) = 1 + r + q
  const Vec u = x.r + x.low;
  Vec q = fma(Vec::set1(0x1.55565cp-5f), u, Vec::set1(0x1.5556ep-3f));
  q = fma(q, u, Vec::set1(0.5f));
  q = fma(q * u, u, x.low);
  return {x.k, x.shifted, exp_table(x.shifted), x.r, q};
}

inline ExpVecParts exp_vec_parts(Vec x) { return exp_vec_parts(exp_reduced<true>(x)); }

// exp(x) where `undecided`, y elsewhere.
__attribute__((noinline, cold)) inline Vec exp_undecided(Vec x, Vec y, Mask undecided) {
  const Mask zero = x < Vec::set1(-104.0f);  // exponents of masked elements
  y = select(zero, Vec::zero(), y);
  undecided = undecided & !zero;
  return any(undecided) ? exactly<exact::exp>(x, y, undecided) : y;
}

[[gnu::always_inline]] inline Vec exp(Vec x) {
  const ExpVecParts e = exp_vec_parts(x);
  const Rounded y = rounded(e.times(e.t), Vec::set1(exp_margin));
  const Mask decided = y.decided & (absolute(x) < Vec::set1(87.0f));
  return or_else<exp_undecided>(x, scaled(y.value, e.k, e.shifted), decided);
}

#else

inline Vec exp(Vec x) { return each_of<exact::exp>(x); }

#endif

}  // namespace repdl::cpu
