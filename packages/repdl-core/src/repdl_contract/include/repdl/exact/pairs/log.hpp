// log, log2, log10 and log1p by pairs of floats (pairs.hpp).
//
//   x = 2**n m, 1 <= m < 2, v_j near 1 / m (j from the leading bits of m), m v_j = 1 + r
//   log(x) = (n log(2) - log(v_j)) + log(1 + r), each to the base
//
// v_j has so few bits that r is exact, and is 1 for the m next to 1, 1 / 2 for those next to 2: for x near 1
// the first term is 0, and the relative error stays small.
#pragma once

#include "repdl/exact/pairs/pairs.hpp"

namespace repdl::exact::pairs {

// v_j
template <class V>
REPDL_HD_INLINE V log_inverse(V index) {
  // tools/exact/generate_vec.py
  static constexpr Table<V> table(
      {0x1p+0f,    0x1.e8p-1f, 0x1.d8p-1f, 0x1.dp-1f,  0x1.cp-1f,  0x1.b8p-1f, 0x1.a8p-1f, 0x1.ap-1f,
       0x1.98p-1f, 0x1.88p-1f, 0x1.8p-1f,  0x1.78p-1f, 0x1.7p-1f,  0x1.68p-1f, 0x1.6p-1f,  0x1.58p-1f,
       0x1.5p-1f,  0x1.48p-1f, 0x1.48p-1f, 0x1.4p-1f,  0x1.38p-1f, 0x1.3p-1f,  0x1.3p-1f,  0x1.28p-1f,
       0x1.2p-1f,  0x1.2p-1f,  0x1.18p-1f, 0x1.1p-1f,  0x1.1p-1f,  0x1.08p-1f, 0x1.08p-1f, 0x1p-1f},
      {0x1p+0f, 0x1.dp-1f, 0x1.cp-1f, 0x1.ap-1f, 0x1.9p-1f, 0x1.8p-1f, 0x1.7p-1f, 0x1.6p-1f, 0x1.5p-1f, 0x1.4p-1f,
       0x1.3p-1f, 0x1.3p-1f, 0x1.2p-1f, 0x1.1p-1f, 0x1.1p-1f, 0x1p-1f});
  return table[index];
}

// Of the terms of a polynomial those of the table's size, which follow those of r**2, in descending order.
template <class V>
REPDL_HD_INLINE V log_polynomial(const float (&wide)[4], const float (&narrow)[5], V r) {
  constexpr bool all = entries<V> == 32;
  V q = V::set1(all ? wide[0] : narrow[0]);
  for (int i = 1; i < (all ? 3 : 4); ++i) q = fma(q, r, V::set1(all ? wide[i] : narrow[i]));
  return fma(q, r, V::set1(all ? wide[3] : narrow[4]));
}

// Of a base: `scale` and `scale_low` are 1 / ln(base); `two` and `two_low` log(2), `two` a multiple of 2**-17
// (base 2: 2**-16, base 10: 2**-18), as is `high`; high + low = -log(v_j);
// log(1 + r) = (scale + scale_low) r + r**2 polynomial.

struct BaseE {
  // tools/exact/generate_vec.py
  static constexpr float scale = 0x1p+0f, scale_low = 0x0p+0f, two = 0x1.62e4p-1f, two_low = 0x1.7f7d1cp-20f;

  template <class V>
  REPDL_HD_INLINE static V polynomial(V r) {
    constexpr float wide[4] = {0x1.928a76p-3f, -0x1.00158ep-2f, 0x1.55559ep-2f, -0x1p-1f};
    constexpr float narrow[5] = {-0x1.4419a2p-3f, 0x1.9a0968p-3f, -0x1.000374p-2f, 0x1.55555p-2f, -0x1p-1f};
    return log_polynomial(wide, narrow, r);
  }

  template <class V>
  REPDL_HD_INLINE static V high(V index) {
    static constexpr Table<V> table(
        {0x0p+0f,      0x1.895p-5f,  0x1.4d3p-4f,  0x1.9338p-4f, 0x1.1178p-3f, 0x1.366p-3f,  0x1.823cp-3f,
         0x1.a94p-3f,  0x1.d104p-3f, 0x1.1178p-2f, 0x1.2696p-2f, 0x1.3c26p-2f, 0x1.522ap-2f, 0x1.68acp-2f,
         0x1.7fbp-2f,  0x1.973ap-2f, 0x1.af52p-2f, 0x1.c8p-2f,   0x1.c8p-2f,   0x1.e148p-2f, 0x1.fb36p-2f,
         0x1.0ae7p-1f, 0x1.0ae7p-1f, 0x1.188fp-1f, 0x1.2696p-1f, 0x1.2696p-1f, 0x1.3503p-1f, 0x1.43dap-1f,
         0x1.43dap-1f, 0x1.5323p-1f, 0x1.5323p-1f, 0x1.62e4p-1f},
        {0x0p+0f, 0x1.9338p-4f, 0x1.1178p-3f, 0x1.a94p-3f, 0x1.f99p-3f, 0x1.2696p-2f, 0x1.522ap-2f, 0x1.7fbp-2f,
         0x1.af52p-2f, 0x1.e148p-2f, 0x1.0ae7p-1f, 0x1.0ae7p-1f, 0x1.2696p-1f, 0x1.43dap-1f, 0x1.43dap-1f,
         0x1.62e4p-1f});
    return table[index];
  }

  template <class V>
  REPDL_HD_INLINE static V low(V index) {
    static constexpr Table<V> table(
        {0x0p+0f,          -0x1.57ad82p-19f, 0x1.15d208p-20f,  -0x1.0d1536p-19f, 0x1.d044fcp-20f,  -0x1.a7f538p-22f,
         0x1.6551a4p-23f,  -0x1.2c3752p-19f, -0x1.01b354p-20f, 0x1.d044fcp-19f,  0x1.089a6ep-21f,  -0x1.b1199ap-19f,
         0x1.c0e714p-19f,  0x1.07d38ep-19f,  -0x1.7109fap-20f, 0x1.a189acp-21f,  0x1.2a491ap-19f,  -0x1.8e2eaap-20f,
         -0x1.8e2eaap-20f, 0x1.4344e4p-19f,  -0x1.d4216ep-20f, 0x1.b8b416p-19f,  0x1.b8b416p-19f,  -0x1.bf0dc4p-21f,
         0x1.089a6ep-20f,  0x1.089a6ep-20f,  -0x1.d4989cp-19f, -0x1.a0db88p-26f, -0x1.a0db88p-26f, -0x1.d97988p-21f,
         -0x1.d97988p-21f, 0x1.7f7d1cp-20f},
        {0x0p+0f, -0x1.0d1536p-19f, 0x1.d044fcp-20f, -0x1.2c3752p-19f, 0x1.c6cb3cp-19f, 0x1.089a6ep-21f,
         0x1.c0e714p-19f, -0x1.7109fap-20f, 0x1.2a491ap-19f, 0x1.4344e4p-19f, 0x1.b8b416p-19f, 0x1.b8b416p-19f,
         0x1.089a6ep-20f, -0x1.a0db88p-26f, -0x1.a0db88p-26f, 0x1.7f7d1cp-20f});
    return table[index];
  }
};

struct Base2 {
  // tools/exact/generate_vec.py
  static constexpr float scale = 0x1.715476p+0f, scale_low = 0x1.4ae0cp-26f, two = 0x1p+0f, two_low = 0x0p+0f;

  template <class V>
  REPDL_HD_INLINE static V polynomial(V r) {
    constexpr float wide[4] = {0x1.225f32p-2f, -0x1.71738ep-2f, 0x1.ec7106p-2f, -0x1.715476p-1f};
    constexpr float narrow[5] = {-0x1.d393ep-3f, 0x1.27c76cp-2f, -0x1.71597p-2f, 0x1.ec7096p-2f, -0x1.715476p-1f};
    return log_polynomial(wide, narrow, r);
  }

  template <class V>
  REPDL_HD_INLINE static V high(V index) {
    static constexpr Table<V> table(
        {0x0p+0f,      0x1.1bbp-4f,  0x1.e0bp-4f,  0x1.22d8p-3f, 0x1.8a88p-3f, 0x1.bfc8p-3f, 0x1.169cp-2f, 0x1.32cp-2f,
         0x1.4f7p-2f,  0x1.8a88p-2f, 0x1.a9p-2f,   0x1.c818p-2f, 0x1.e7ep-2f,  0x1.042cp-1f, 0x1.14c6p-1f, 0x1.25cp-1f,
         0x1.3722p-1f, 0x1.48eep-1f, 0x1.48eep-1f, 0x1.5b2cp-1f, 0x1.6dep-1f,  0x1.811p-1f,  0x1.811p-1f,  0x1.94c2p-1f,
         0x1.a9p-1f,   0x1.a9p-1f,   0x1.bdcep-1f, 0x1.d338p-1f, 0x1.d338p-1f, 0x1.e946p-1f, 0x1.e946p-1f, 0x1p+0f},
        {0x0p+0f, 0x1.22d8p-3f, 0x1.8a88p-3f, 0x1.32cp-2f, 0x1.6cbp-2f, 0x1.a9p-2f, 0x1.e7ep-2f, 0x1.14c6p-1f,
         0x1.3722p-1f, 0x1.5b2cp-1f, 0x1.811p-1f, 0x1.811p-1f, 0x1.a9p-1f, 0x1.d338p-1f, 0x1.d338p-1f, 0x1p+0f});
    return table[index];
  }

  template <class V>
  REPDL_HD_INLINE static V low(V index) {
    static constexpr Table<V> table(
        {0x0p+0f,          0x1.953002p-19f,  0x1.ae8f3p-20f,   0x1.6e155ap-18f,  0x1.80abfcp-19f,  -0x1.858p-19f,
         0x1.4d8fc6p-24f,  -0x1.1c8f12p-22f, -0x1.134c4ep-20f, 0x1.80abfcp-18f,  -0x1.a39fbep-20f, 0x1.dc2d46p-18f,
         -0x1.40358ep-19f, -0x1.5a32c2p-20f, -0x1.3e032ep-18f, 0x1.408c78p-18f,  0x1.5db83ap-20f,  0x1.e3263p-18f,
         0x1.e3263p-18f,   0x1.ed0cbap-20f,  -0x1.eac382p-20f, -0x1.6b9026p-19f, -0x1.6b9026p-19f, 0x1.0e9258p-18f,
         -0x1.a39fbep-19f, -0x1.a39fbep-19f, 0x1.3b992cp-18f,  0x1.20a6dep-21f,  0x1.20a6dep-21f,  -0x1.a6eb1ep-18f,
         -0x1.a6eb1ep-18f, 0x0p+0f},
        {0x0p+0f, 0x1.6e155ap-18f, 0x1.80abfcp-19f, -0x1.1c8f12p-22f, 0x1.ed0cbap-19f, -0x1.a39fbep-20f,
         -0x1.40358ep-19f, -0x1.3e032ep-18f, 0x1.5db83ap-20f, 0x1.ed0cbap-20f, -0x1.6b9026p-19f, -0x1.6b9026p-19f,
         -0x1.a39fbep-19f, 0x1.20a6dep-21f, 0x1.20a6dep-21f, 0x0p+0f});
    return table[index];
  }
};

struct Base10 {
  // tools/exact/generate_vec.py
  static constexpr float scale = 0x1.bcb7b2p-2f, scale_low = -0x1.5b235ep-27f, two = 0x1.3441p-2f,
                         two_low = 0x1.a84fbcp-21f;

  template <class V>
  REPDL_HD_INLINE static V polynomial(V r) {
    constexpr float wide[4] = {0x1.5da47ep-4f, -0x1.bcdd22p-4f, 0x1.287ab4p-3f, -0x1.bcb7bp-3f};
    constexpr float narrow[5] = {-0x1.198282p-4f, 0x1.642746p-4f, -0x1.bcbdbp-4f, 0x1.287a72p-3f, -0x1.bcb7b2p-3f};
    return log_polynomial(wide, narrow, r);
  }

  template <class V>
  REPDL_HD_INLINE static V high(V index) {
    static constexpr Table<V> table(
        {0x0p+0f,      0x1.55ap-6f,  0x1.2168p-5f, 0x1.5e38p-5f, 0x1.db1p-5f,  0x1.0d98p-4f, 0x1.4f7cp-4f,
         0x1.715cp-4f, 0x1.93e8p-4f, 0x1.db1p-4f,  0x1.ffcp-4f,  0x1.129ap-3f, 0x1.25bap-3f, 0x1.3948p-3f,
         0x1.4d44p-3f, 0x1.61b6p-3f, 0x1.76a4p-3f, 0x1.8c14p-3f, 0x1.8c14p-3f, 0x1.a20ap-3f, 0x1.b88ep-3f,
         0x1.cfa8p-3f, 0x1.cfa8p-3f, 0x1.e762p-3f, 0x1.ffcp-3f,  0x1.ffcp-3f,  0x1.0c67p-2f, 0x1.194bp-2f,
         0x1.194bp-2f, 0x1.2692p-2f, 0x1.2692p-2f, 0x1.3441p-2f},
        {0x0p+0f, 0x1.5e38p-5f, 0x1.db1p-5f, 0x1.715cp-4f, 0x1.b72p-4f, 0x1.ffcp-4f, 0x1.25bap-3f, 0x1.4d44p-3f,
         0x1.76a4p-3f, 0x1.a20ap-3f, 0x1.cfa8p-3f, 0x1.cfa8p-3f, 0x1.ffcp-3f, 0x1.194bp-2f, 0x1.194bp-2f,
         0x1.3441p-2f});
    return table[index];
  }

  template <class V>
  REPDL_HD_INLINE static V low(V index) {
    static constexpr Table<V> table(
        {0x0p+0f,          -0x1.0b6fe4p-20f, 0x1.b5c8c2p-25f,  0x1.66b7eap-21f, 0x1.ed766ap-21f,  -0x1.9339bp-20f,
         -0x1.526444p-20f, 0x1.0ce368p-20f,  -0x1.0f81ep-23f,  0x1.ed766ap-20f, -0x1.ea21c4p-23f, -0x1.6c1308p-21f,
         0x1.042b5ep-20f,  -0x1.fe10d6p-20f, -0x1.f6296ep-25f, 0x1.273306p-20f, 0x1.72edfap-21f,  -0x1.7912d6p-20f,
         -0x1.7912d6p-20f, -0x1.5ec10cp-21f, 0x1.9f3e5ep-21f,  0x1.cecb98p-20f, 0x1.cecb98p-20f,  -0x1.b7f72ap-20f,
         -0x1.ea21c4p-22f, -0x1.ea21c4p-22f, 0x1.1d6abep-22f,  0x1.def7b6p-21f, 0x1.def7b6p-21f,  -0x1.33d61p-22f,
         -0x1.33d61p-22f,  0x1.a84fbcp-21f},
        {0x0p+0f, 0x1.66b7eap-21f, 0x1.ed766ap-21f, 0x1.0ce368p-20f, 0x1.cd1716p-20f, -0x1.ea21c4p-23f, 0x1.042b5ep-20f,
         -0x1.f6296ep-25f, 0x1.72edfap-21f, -0x1.5ec10cp-21f, 0x1.cecb98p-20f, 0x1.cecb98p-20f, -0x1.ea21c4p-22f,
         0x1.def7b6p-21f, 0x1.def7b6p-21f, 0x1.a84fbcp-21f});
    return table[index];
  }
};

// The margin is far r**2 (log1p: |r|**3) + near |the first term| (log1p: the sum): what was measured, and a little.
struct LogMargin {
  float far, near;
};
constexpr LogMargin log_margin = {0x1p-23f, 0x1p-37f};
constexpr LogMargin log2_margin = {0x1.2p-23f, 0x1p-36f};
constexpr LogMargin log10_margin = {0x1.8p-25f, 0x1p-36f};
template <class V>
constexpr LogMargin log1p_margin = {entries<V> == 32 ? 0x1p-23f : 0x1.2p-23f, 0x1p-36f};

template <class Base, class V>
REPDL_HD_INLINE Rounded<V> log_of(V x, LogMargin margin) {
  const auto of = parts(x);
  const V r = fma(of.mantissa, log_inverse(of.index), V::set1(-1.0f));  // exact
  const V square = r * r, q = Base::polynomial(r);

  const V whole = fma(of.exponent, V::set1(Base::two), Base::high(of.index));  // exact
  V h = r, low = Base::low(of.index);
  if constexpr (Base::two_low != 0) low = fma(of.exponent, V::set1(Base::two_low), low);
  if constexpr (Base::scale_low != 0) {
    h = r * V::set1(Base::scale);
    low = low + fma(r, V::set1(Base::scale), -h);
  }
  const V s = whole + h;
  low = (h - (s - whole)) + low;
  if constexpr (Base::scale_low != 0)
    low = fma(fma(q, r, V::set1(Base::scale_low)), r, low);
  else
    low = fma(q, square, low);
  const V error = fma(square, V::set1(margin.far), absolute(whole) * V::set1(margin.near));
  const Rounded<V> y = rounded(DoubleFloat<V>{s, low}, error);
  return {y.value, y.decided & has_parts(x)};
}

template <class V>
REPDL_HD_INLINE Rounded<V> log(V x) {
  return log_of<BaseE>(x, log_margin);
}

template <class V>
REPDL_HD_INLINE Rounded<V> log2(V x) {
  return log_of<Base2>(x, log2_margin);
}

template <class V>
REPDL_HD_INLINE Rounded<V> log10(V x) {
  return log_of<Base10>(x, log10_margin);
}

// log(1 + r) = r - r**2 / 2 + r**3 times this.
template <class V>
REPDL_HD_INLINE V log1p_polynomial(V r) {
  constexpr float wide[4] = {-0x1.4f4998p-3f, 0x1.99be8cp-3f, -0x1.00003ep-2f, 0x1.555554p-2f};
  constexpr float narrow[5] = {0x1.15829ap-3f, -0x1.55b72cp-3f, 0x1.999fa2p-3f, -0x1.fffff6p-3f, 0x1.555556p-2f};
  return log_polynomial(wide, narrow, r);
}

// 1 + x is a sum of two floats, and so is r; r - r**2 / 2 is kept with what rounding takes from it.
template <class V>
REPDL_HD_INLINE Rounded<V> log1p(V x) {
  const auto usual = not_tiny(x), inside = x < V::set1(0x1p60f);  // beyond, `scaled` can be subnormal
  const V one = V::set1(1.0f), z = mask_or_zero(usual & inside, x);
  const V large = larger(one, z), small = smaller(one, z);
  const V sum = large + small, beside = small - (sum - large);

  const auto of = parts(sum);
  const V inverse = log_inverse(of.index);
  const V scale = with_bits<V>(bits_of(inverse) + (bits_of(of.mantissa) - bits_of(sum)));  // by 2**-exponent
  const V first = fma(of.mantissa, inverse, -one), second = beside * scale;
  const V r = first + second, r_low = second - (r - first);

  const V half = r * V::set1(-0.5f), h = fma(half, r, r);
  const V h_low = fma(half, r, r - h) + fma(-r, r_low, r_low);
  const V cube = r * r * r, q = log1p_polynomial(r);

  const V whole = fma(of.exponent, V::set1(BaseE::two), BaseE::high(of.index));  // exact
  V low = fma(of.exponent, V::set1(BaseE::two_low), BaseE::low(of.index));
  const V s = whole + h;
  low = fma(q, cube, (h - (s - whole)) + (low + h_low));
  const LogMargin margin = log1p_margin<V>;
  const V error = fma(absolute(cube), V::set1(margin.far), absolute(s) * V::set1(margin.near));
  const Rounded<V> y = rounded(DoubleFloat<V>{s, low}, error);
  return {select(usual, y.value, x), y.decided & inside & has_parts(sum)};
}

}  // namespace repdl::exact::pairs
