// log, log2, log10 and log1p of a whole Vec: the bits of repdl/exact/log.hpp and so on, most of the time
// without doubles.
//
//   x = 2**n m, 1 <= m < 2, v_j near 1 / m (j from the leading bits of m), m v_j = 1 + r
//   log(x) = (n log(2) - log(v_j)) + log(1 + r), each to the base
//
// v_j has so few bits that r is exact, and is 1 for the m next to 1, 1 / 2 for those next to 2: for x near 1
// the first term is 0, and the relative error stays small. The result is kept as s + rest, a float and its
// correction, and what an error below the margin does not
// decide, the double function does (simd_mask.hpp).
#pragma once

#include "repdl/exact/log.hpp"
#include "repdl/exact/log10.hpp"
#include "repdl/exact/log1p.hpp"
#include "repdl/exact/log2.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

struct LogBase {
  float scale, scale_low;    // 1 / ln(base)
  float two, two_low;        // log(2), `two` a multiple of 2**-17 (base 2: 2**-16, base 10: 2**-18), as is `high`
  float wide[4], narrow[5];  // log(1 + r) = (scale + scale_low) r + r**2 (... + last), of 32 and of 16 entries
  Table high, low;           // high + low = -log(v_j)
};

// tools/exact/generate_vec.py
inline constexpr Table log_inverse({0x1p+0f,   0x1.e8p-1f, 0x1.d8p-1f, 0x1.dp-1f,  0x1.cp-1f,  0x1.b8p-1f, 0x1.a8p-1f,
                                    0x1.ap-1f, 0x1.98p-1f, 0x1.88p-1f, 0x1.8p-1f,  0x1.78p-1f, 0x1.7p-1f,  0x1.68p-1f,
                                    0x1.6p-1f, 0x1.58p-1f, 0x1.5p-1f,  0x1.48p-1f, 0x1.48p-1f, 0x1.4p-1f,  0x1.38p-1f,
                                    0x1.3p-1f, 0x1.3p-1f,  0x1.28p-1f, 0x1.2p-1f,  0x1.2p-1f,  0x1.18p-1f, 0x1.1p-1f,
                                    0x1.1p-1f, 0x1.08p-1f, 0x1.08p-1f, 0x1p-1f},
                                   {0x1p+0f, 0x1.dp-1f, 0x1.cp-1f, 0x1.ap-1f, 0x1.9p-1f, 0x1.8p-1f, 0x1.7p-1f,
                                    0x1.6p-1f, 0x1.5p-1f, 0x1.4p-1f, 0x1.3p-1f, 0x1.3p-1f, 0x1.2p-1f, 0x1.1p-1f,
                                    0x1.1p-1f, 0x1p-1f});
inline constexpr LogBase base_e{
    0x1p+0f,
    0x0p+0f,
    0x1.62e4p-1f,
    0x1.7f7d1cp-20f,
    {0x1.928a76p-3f, -0x1.00158ep-2f, 0x1.55559ep-2f, -0x1p-1f},
    {-0x1.4419a2p-3f, 0x1.9a0968p-3f, -0x1.000374p-2f, 0x1.55555p-2f, -0x1p-1f},
    Table({0x0p+0f,      0x1.895p-5f,  0x1.4d3p-4f,  0x1.9338p-4f, 0x1.1178p-3f, 0x1.366p-3f,  0x1.823cp-3f,
           0x1.a94p-3f,  0x1.d104p-3f, 0x1.1178p-2f, 0x1.2696p-2f, 0x1.3c26p-2f, 0x1.522ap-2f, 0x1.68acp-2f,
           0x1.7fbp-2f,  0x1.973ap-2f, 0x1.af52p-2f, 0x1.c8p-2f,   0x1.c8p-2f,   0x1.e148p-2f, 0x1.fb36p-2f,
           0x1.0ae7p-1f, 0x1.0ae7p-1f, 0x1.188fp-1f, 0x1.2696p-1f, 0x1.2696p-1f, 0x1.3503p-1f, 0x1.43dap-1f,
           0x1.43dap-1f, 0x1.5323p-1f, 0x1.5323p-1f, 0x1.62e4p-1f},
          {0x0p+0f, 0x1.9338p-4f, 0x1.1178p-3f, 0x1.a94p-3f, 0x1.f99p-3f, 0x1.2696p-2f, 0x1.522ap-2f, 0x1.7fbp-2f,
           0x1.af52p-2f, 0x1.e148p-2f, 0x1.0ae7p-1f, 0x1.0ae7p-1f, 0x1.2696p-1f, 0x1.43dap-1f, 0x1.43dap-1f,
           0x1.62e4p-1f}),
    Table({0x0p+0f,          -0x1.57ad82p-19f, 0x1.15d208p-20f,  -0x1.0d1536p-19f, 0x1.d044fcp-20f,  -0x1.a7f538p-22f,
           0x1.6551a4p-23f,  -0x1.2c3752p-19f, -0x1.01b354p-20f, 0x1.d044fcp-19f,  0x1.089a6ep-21f,  -0x1.b1199ap-19f,
           0x1.c0e714p-19f,  0x1.07d38ep-19f,  -0x1.7109fap-20f, 0x1.a189acp-21f,  0x1.2a491ap-19f,  -0x1.8e2eaap-20f,
           -0x1.8e2eaap-20f, 0x1.4344e4p-19f,  -0x1.d4216ep-20f, 0x1.b8b416p-19f,  0x1.b8b416p-19f,  -0x1.bf0dc4p-21f,
           0x1.089a6ep-20f,  0x1.089a6ep-20f,  -0x1.d4989cp-19f, -0x1.a0db88p-26f, -0x1.a0db88p-26f, -0x1.d97988p-21f,
           -0x1.d97988p-21f, 0x1.7f7d1cp-20f},
          {0x0p+0f, -0x1.0d1536p-19f, 0x1.d044fcp-20f, -0x1.2c3752p-19f, 0x1.c6cb3cp-19f, 0x1.089a6ep-21f,
           0x1.c0e714p-19f, -0x1.7109fap-20f, 0x1.2a491ap-19f, 0x1.4344e4p-19f, 0x1.b8b416p-19f, 0x1.b8b416p-19f,
           0x1.089a6ep-20f, -0x1.a0db88p-26f, -0x1.a0db88p-26f, 0x1.7f7d1cp-20f})};
inline constexpr LogBase base_2{
    0x1.715476p+0f,
    0x1.4ae0cp-26f,
    0x1p+0f,
    0x0p+0f,
    {0x1.225f32p-2f, -0x1.71738ep-2f, 0x1.ec7106p-2f, -0x1.715476p-1f},
    {-0x1.d393ep-3f, 0x1.27c76cp-2f, -0x1.71597p-2f, 0x1.ec7096p-2f, -0x1.715476p-1f},
    Table(
        {0x0p+0f,      0x1.1bbp-4f,  0x1.e0bp-4f,  0x1.22d8p-3f, 0x1.8a88p-3f, 0x1.bfc8p-3f, 0x1.169cp-2f, 0x1.32cp-2f,
         0x1.4f7p-2f,  0x1.8a88p-2f, 0x1.a9p-2f,   0x1.c818p-2f, 0x1.e7ep-2f,  0x1.042cp-1f, 0x1.14c6p-1f, 0x1.25cp-1f,
         0x1.3722p-1f, 0x1.48eep-1f, 0x1.48eep-1f, 0x1.5b2cp-1f, 0x1.6dep-1f,  0x1.811p-1f,  0x1.811p-1f,  0x1.94c2p-1f,
         0x1.a9p-1f,   0x1.a9p-1f,   0x1.bdcep-1f, 0x1.d338p-1f, 0x1.d338p-1f, 0x1.e946p-1f, 0x1.e946p-1f, 0x1p+0f},
        {0x0p+0f, 0x1.22d8p-3f, 0x1.8a88p-3f, 0x1.32cp-2f, 0x1.6cbp-2f, 0x1.a9p-2f, 0x1.e7ep-2f, 0x1.14c6p-1f,
         0x1.3722p-1f, 0x1.5b2cp-1f, 0x1.811p-1f, 0x1.811p-1f, 0x1.a9p-1f, 0x1.d338p-1f, 0x1.d338p-1f, 0x1p+0f}),
    Table({0x0p+0f,          0x1.953002p-19f,  0x1.ae8f3p-20f,   0x1.6e155ap-18f,  0x1.80abfcp-19f,  -0x1.858p-19f,
           0x1.4d8fc6p-24f,  -0x1.1c8f12p-22f, -0x1.134c4ep-20f, 0x1.80abfcp-18f,  -0x1.a39fbep-20f, 0x1.dc2d46p-18f,
           -0x1.40358ep-19f, -0x1.5a32c2p-20f, -0x1.3e032ep-18f, 0x1.408c78p-18f,  0x1.5db83ap-20f,  0x1.e3263p-18f,
           0x1.e3263p-18f,   0x1.ed0cbap-20f,  -0x1.eac382p-20f, -0x1.6b9026p-19f, -0x1.6b9026p-19f, 0x1.0e9258p-18f,
           -0x1.a39fbep-19f, -0x1.a39fbep-19f, 0x1.3b992cp-18f,  0x1.20a6dep-21f,  0x1.20a6dep-21f,  -0x1.a6eb1ep-18f,
           -0x1.a6eb1ep-18f, 0x0p+0f},
          {0x0p+0f, 0x1.6e155ap-18f, 0x1.80abfcp-19f, -0x1.1c8f12p-22f, 0x1.ed0cbap-19f, -0x1.a39fbep-20f,
           -0x1.40358ep-19f, -0x1.3e032ep-18f, 0x1.5db83ap-20f, 0x1.ed0cbap-20f, -0x1.6b9026p-19f, -0x1.6b9026p-19f,
           -0x1.a39fbep-19f, 0x1.20a6dep-21f, 0x1.20a6dep-21f, 0x0p+0f})};
inline constexpr LogBase base_10{
    0x1.bcb7b2p-2f,
    -0x1.5b235ep-27f,
    0x1.3441p-2f,
    0x1.a84fbcp-21f,
    {0x1.5da47ep-4f, -0x1.bcdd22p-4f, 0x1.287ab4p-3f, -0x1.bcb7bp-3f},
    {-0x1.198282p-4f, 0x1.642746p-4f, -0x1.bcbdbp-4f, 0x1.287a72p-3f, -0x1.bcb7b2p-3f},
    Table({0x0p+0f,      0x1.55ap-6f,  0x1.2168p-5f, 0x1.5e38p-5f, 0x1.db1p-5f,  0x1.0d98p-4f, 0x1.4f7cp-4f,
           0x1.715cp-4f, 0x1.93e8p-4f, 0x1.db1p-4f,  0x1.ffcp-4f,  0x1.129ap-3f, 0x1.25bap-3f, 0x1.3948p-3f,
           0x1.4d44p-3f, 0x1.61b6p-3f, 0x1.76a4p-3f, 0x1.8c14p-3f, 0x1.8c14p-3f, 0x1.a20ap-3f, 0x1.b88ep-3f,
           0x1.cfa8p-3f, 0x1.cfa8p-3f, 0x1.e762p-3f, 0x1.ffcp-3f,  0x1.ffcp-3f,  0x1.0c67p-2f, 0x1.194bp-2f,
           0x1.194bp-2f, 0x1.2692p-2f, 0x1.2692p-2f, 0x1.3441p-2f},
          {0x0p+0f, 0x1.5e38p-5f, 0x1.db1p-5f, 0x1.715cp-4f, 0x1.b72p-4f, 0x1.ffcp-4f, 0x1.25bap-3f, 0x1.4d44p-3f,
           0x1.76a4p-3f, 0x1.a20ap-3f, 0x1.cfa8p-3f, 0x1.cfa8p-3f, 0x1.ffcp-3f, 0x1.194bp-2f, 0x1.194bp-2f,
           0x1.3441p-2f}),
    Table({0x0p+0f,          -0x1.0b6fe4p-20f, 0x1.b5c8c2p-25f,  0x1.66b7eap-21f, 0x1.ed766ap-21f,  -0x1.9339bp-20f,
           -0x1.526444p-20f, 0x1.0ce368p-20f,  -0x1.0f81ep-23f,  0x1.ed766ap-20f, -0x1.ea21c4p-23f, -0x1.6c1308p-21f,
           0x1.042b5ep-20f,  -0x1.fe10d6p-20f, -0x1.f6296ep-25f, 0x1.273306p-20f, 0x1.72edfap-21f,  -0x1.7912d6p-20f,
           -0x1.7912d6p-20f, -0x1.5ec10cp-21f, 0x1.9f3e5ep-21f,  0x1.cecb98p-20f, 0x1.cecb98p-20f,  -0x1.b7f72ap-20f,
           -0x1.ea21c4p-22f, -0x1.ea21c4p-22f, 0x1.1d6abep-22f,  0x1.def7b6p-21f, 0x1.def7b6p-21f,  -0x1.33d61p-22f,
           -0x1.33d61p-22f,  0x1.a84fbcp-21f},
          {0x0p+0f, 0x1.66b7eap-21f, 0x1.ed766ap-21f, 0x1.0ce368p-20f, 0x1.cd1716p-20f, -0x1.ea21c4p-23f,
           0x1.042b5ep-20f, -0x1.f6296ep-25f, 0x1.72edfap-21f, -0x1.5ec10cp-21f, 0x1.cecb98p-20f, 0x1.cecb98p-20f,
           -0x1.ea21c4p-22f, 0x1.def7b6p-21f, 0x1.def7b6p-21f, 0x1.a84fbcp-21f})};
// log(1 + r) = r - r**2 / 2 + r**3 (... + last).
inline constexpr float log1p_wide[4] = {-0x1.4f4998p-3f, 0x1.99be8cp-3f, -0x1.00003ep-2f, 0x1.555554p-2f},
                       log1p_narrow[5] = {0x1.15829ap-3f, -0x1.55b72cp-3f, 0x1.999fa2p-3f, -0x1.fffff6p-3f,
                                          0x1.555556p-2f};

// The margin is far r**2 (log1p: |r|**3) + near |the first term| (log1p: the sum): what was measured, and a little.
struct LogMargin {
  float far, near;
};
constexpr bool log_wide = table_entries == 32;
constexpr LogMargin log_margin = {0x1p-23f, 0x1p-37f};
constexpr LogMargin log2_margin = {0x1.2p-23f, 0x1p-36f};
constexpr LogMargin log10_margin = {0x1.8p-25f, 0x1p-36f};
constexpr LogMargin log1p_margin = {log_wide ? 0x1p-23f : 0x1.2p-23f, 0x1p-36f};

inline Vec log_polynomial(const float (&wide)[4], const float (&narrow)[5], Vec r) {
  Vec q = Vec::set1(log_wide ? wide[0] : narrow[0]);
  for (int i = 1; i < (log_wide ? 3 : 4); ++i) q = fma(q, r, Vec::set1(log_wide ? wide[i] : narrow[i]));
  return fma(q, r, Vec::set1(log_wide ? wide[3] : narrow[4]));
}

template <const LogBase& base, float (*exact)(float), class V>
[[gnu::always_inline]] inline V log_of(V given, LogMargin margin) {
  const Vec x = value_of(given);
  const Parts of = parts(x);
  const Vec r = fma(of.mantissa, log_inverse[of.index], Vec::set1(-1.0f));  // exact
  const Vec square = r * r, q = log_polynomial(base.wide, base.narrow, r);

  const Vec whole = fma(of.exponent, Vec::set1(base.two), base.high[of.index]);  // exact
  Vec h = r, low = base.low[of.index];
  if constexpr (base.two_low != 0) low = fma(of.exponent, Vec::set1(base.two_low), low);
  if constexpr (base.scale_low != 0) {
    h = r * Vec::set1(base.scale);
    low = low + fma(r, Vec::set1(base.scale), -h);
  }
  const Vec s = whole + h;
  low = (h - (s - whole)) + low;
  if constexpr (base.scale_low != 0)
    low = fma(fma(q, r, Vec::set1(base.scale_low)), r, low);
  else
    low = fma(q, square, low);
  const Rounded y = rounded({s, low}, fma(square, Vec::set1(margin.far), absolute(whole) * Vec::set1(margin.near)));
  return or_else<exactly<exact>>(given, y.value, y.decided & has_parts(x));
}

template <class V>
[[gnu::always_inline]] inline V log(V x) {
  return log_of<base_e, exact::log>(x, log_margin);
}

template <class V>
[[gnu::always_inline]] inline V log2(V x) {
  return log_of<base_2, exact::log2>(x, log2_margin);
}

template <class V>
[[gnu::always_inline]] inline V log10(V x) {
  return log_of<base_10, exact::log10>(x, log10_margin);
}

// 1 + x is a sum of two floats, and so is r; r - r**2 / 2 is kept with what rounding takes from it.
template <class V>
[[gnu::always_inline]] inline V log1p(V given) {
  const Vec x = value_of(given);
  const Mask usual = not_tiny(x), inside = x < Vec::set1(0x1p60f);  // beyond, `scaled` can be subnormal
  const Vec one = Vec::set1(1.0f), z = where(usual & inside, x);
  const Vec large = larger(one, z), small = smaller(one, z);
  const Vec sum = large + small, beside = small - (sum - large);

  const Parts of = parts(sum);
  const Vec inverse = log_inverse[of.index];
  const Vec scaled = vec_of(bits_of(inverse) + (bits_of(of.mantissa) - bits_of(sum)));  // by 2**-exponent
  const Vec first = fma(of.mantissa, inverse, -one), second = beside * scaled;
  const Vec r = first + second, r_low = second - (r - first);

  const Vec half = r * Vec::set1(-0.5f), h = fma(half, r, r);
  const Vec h_low = fma(half, r, r - h) + fma(-r, r_low, r_low);
  const Vec cube = r * r * r, q = log_polynomial(log1p_wide, log1p_narrow, r);

  const Vec whole = fma(of.exponent, Vec::set1(base_e.two), base_e.high[of.index]);  // exact
  Vec low = fma(of.exponent, Vec::set1(base_e.two_low), base_e.low[of.index]);
  const Vec s = whole + h;
  low = fma(q, cube, (h - (s - whole)) + (low + h_low));
  const Rounded y =
      rounded({s, low}, fma(absolute(cube), Vec::set1(log1p_margin.far), absolute(s) * Vec::set1(log1p_margin.near)));
  return or_else<exactly<exact::log1p>>(given, select(usual, y.value, x), y.decided & inside & has_parts(sum));
}

#else

inline Vec log(Vec x) { return each_of<exact::log>(x); }
inline Vec log2(Vec x) { return each_of<exact::log2>(x); }
inline Vec log10(Vec x) { return each_of<exact::log10>(x); }
inline Vec log1p(Vec x) { return each_of<exact::log1p>(x); }

#endif

}  // namespace repdl::cpu
