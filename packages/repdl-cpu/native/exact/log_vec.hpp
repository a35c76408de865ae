// log, log2, log10 and log1p of a whole Vec: the bits of repdl/exact/log.hpp and so on, most of the time
// without doubles.
//
//   x = 2**n m, 1 / m near inverse_j (j from the leading bits of m), m inverse_j = 1 + r
//   log(x) = (n log(2) - log(inverse_j)) + log(1 + r), each to the base
//
// What is looked up is scale inverse_j, scale near 1 / ln(base), so that h = scale r, the leading term of
// log(1 + r), comes out of one product. The result is kept as s + rest, a float and its correction, with
// an error below `margin`; what that does not decide, the double function does (simd_mask.hpp). For x near
// 1, n = 0 and inverse_j = 1, so that the relative error stays small.
#pragma once

#include "repdl/exact/log.hpp"
#include "repdl/exact/log10.hpp"
#include "repdl/exact/log1p.hpp"
#include "repdl/exact/log2.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

// The margin is far h**2 + near |s|: the largest errors that were measured, and a little.
struct LogMargin {
  float far, near;
};

struct LogBase {
  float scale, more;         // 1 / ln(base) = scale (1 + more)
  float two, two_low;        // log(2), `two` a multiple of 2**-17 (base 10: 2**-18), as is `high`
  float q3, q2, q1, q0;      // log(1 + r) = h + h more + h**2 (q0 + ...)
  Table inverse, high, low;  // scale inverse_j; high + low = -log(inverse_j)
};

// tools/exact/generate_vec.py
inline constexpr LogBase base_e{
    0x1p+0f,
    0x0p+0f,
    0x1.62e4p-1f,
    0x1.7f7d1cp-20f,
    0x1.99beecp-3f,
    -0x1.0015c4p-2f,
    0x1.555556p-2f,
    -0x1p-1f,
    Table({0x1.642c86p+0f, 0x1.5c9882p+0f, 0x1.555556p+0f, 0x1.4e5e0ap+0f, 0x1.47ae14p+0f, 0x1.414142p+0f,
           0x1.3b13b2p+0f, 0x1.3521dp+0f,  0x1.2f684cp+0f, 0x1.29e412p+0f, 0x1.24924ap+0f, 0x1.1f7048p+0f,
           0x1.1a7b96p+0f, 0x1.15b1e6p+0f, 0x1.111112p+0f, 0x1.0c9714p+0f, 0x1.08421p+0f,  0x1.041042p+0f,
           0x1p+0f,        0x1.f07c2p-1f,  0x1.e1e1e2p-1f, 0x1.d41d42p-1f, 0x1.c71c72p-1f, 0x1.bacf92p-1f,
           0x1.af286cp-1f, 0x1.a41a42p-1f, 0x1.99999ap-1f, 0x1.8f9c18p-1f, 0x1.861862p-1f, 0x1.7d05f4p-1f,
           0x1.745d18p-1f, 0x1.6c16c2p-1f}),
    Table({-0x1.522ap-2f, -0x1.3c26p-2f, -0x1.2696p-2f, -0x1.1178p-2f, -0x1.f99p-3f, -0x1.d104p-3f, -0x1.a94p-3f,
           -0x1.823cp-3f, -0x1.5bf4p-3f, -0x1.366p-3f,  -0x1.1178p-3f, -0x1.da7p-4f, -0x1.9338p-4f, -0x1.4d3p-4f,
           -0x1.0858p-4f, -0x1.895p-5f,  -0x1.041p-5f,  -0x1.02p-6f,   0x0p+0f,      0x1.f82p-6f,   0x1.f0ap-5f,
           0x1.6f1p-4f,   0x1.e27p-4f,   0x1.2954p-3f,  0x1.5ff4p-3f,  0x1.9524p-3f, 0x1.c9p-3f,    0x1.fb9p-3f,
           0x1.1676p-2f,  0x1.2e8ep-2f,  0x1.4618p-2f,  0x1.5d1cp-2f}),
    Table({-0x1.c36714p-19f, 0x1.b5599ap-19f,  -0x1.189a6ep-21f, -0x1.cd84fcp-19f, -0x1.c3cb3cp-19f, 0x1.f066a8p-21f,
           0x1.273752p-19f,  -0x1.8551a4p-23f, -0x1.ed50f6p-25f, 0x1.c9f538p-22f,  -0x1.dc44fcp-20f, -0x1.3c1c22p-19f,
           0x1.0d9536p-19f,  -0x1.165208p-20f, -0x1.9959e4p-20f, 0x1.5f2d82p-19f,  -0x1.72279ep-19f, -0x1.68e24ep-20f,
           0x0p+0f,          0x1.321cfp-19f,   0x1.85008cp-20f,  -0x1.6c68d4p-19f, 0x1.d38abcp-22f,  0x1.2c42p-19f,
           -0x1.f3eb0ep-20f, 0x1.a80f46p-19f,  -0x1.0b0cacp-20f, 0x1.8bd5e4p-19f,  -0x1.b42a2cp-21f, 0x1.5f708ep-21f,
           0x1.74438cp-19f,  -0x1.2d53fcp-21f})};
inline constexpr LogBase base_2{
    0x1.715476p+0f,
    0x1.cab1b8p-27f,
    0x1p+0f,
    0x0p+0f,
    0x1.7a55b8p-5f,
    -0x1.55216ap-4f,
    0x1.47fd4p-3f,
    -0x1.62e43p-2f,
    Table({0x1.00ecd8p+1f, 0x1.f6ead8p+0f, 0x1.ec709ep+0f, 0x1.e263dep+0f, 0x1.d8be08p+0f, 0x1.cf790cp+0f,
           0x1.c68f56p+0f, 0x1.bdfbbap+0f, 0x1.b5b97p+0f,  0x1.adc406p+0f, 0x1.a61762p+0f, 0x1.9eafacp+0f,
           0x1.978956p+0f, 0x1.90a10ap+0f, 0x1.89f3b2p+0f, 0x1.837e62p+0f, 0x1.7d3e6ap+0f, 0x1.77313ap+0f,
           0x1.715476p+0f, 0x1.66235cp+0f, 0x1.5b9acap+0f, 0x1.51ac4ep+0f, 0x1.484b14p+0f, 0x1.3f6ba4p+0f,
           0x1.3703c2p+0f, 0x1.2f0a3ap+0f, 0x1.2776c4p+0f, 0x1.2041ecp+0f, 0x1.1964ecp+0f, 0x1.12d9a6p+0f,
           0x1.0c9a84p+0f, 0x1.06a276p+0f}),
    Table({-0x1.e7ep-2f,  -0x1.c81ap-2f, -0x1.a9p-2f,   -0x1.8a8ap-2f, -0x1.6cbp-2f,  -0x1.4f7p-2f,  -0x1.32cp-2f,
           -0x1.169cp-2f, -0x1.f5fcp-3f, -0x1.bfc8p-3f, -0x1.8a88p-3f, -0x1.563cp-3f, -0x1.22dcp-3f, -0x1.e0bp-4f,
           -0x1.7d6p-4f,  -0x1.1bbp-4f,  -0x1.774p-5f,  -0x1.744p-6f,  0x0p+0f,       0x1.6bbp-5f,   0x1.664p-4f,
           0x1.08c4p-3f,  0x1.5cp-3f,    0x1.acf4p-3f,  0x1.fbcp-3f,   0x1.244p-2f,   0x1.49a8p-2f,  0x1.6e22p-2f,
           0x1.91bcp-2f,  0x1.b47ep-2f,  0x1.d676p-2f,  0x1.f7a8p-2f}),
    Table({0x1.3c358ep-19f,  0x1.0a95dp-21f,   0x1.9b9fbep-20f,  0x1.fdd01p-20f,   -0x1.ef0cbap-19f, 0x1.1a4c4ep-20f,
           0x1.248f12p-22f,  -0x1.558fc6p-24f, -0x1.8e9064p-19f, 0x1.8c4p-19f,     -0x1.7eabfcp-19f, -0x1.bc1ffap-19f,
           0x1.24554cp-19f,  -0x1.a20f3p-20f,  -0x1.5db3eep-22f, -0x1.907002p-19f, 0x1.a7589ap-19f,  0x1.519e0cp-22f,
           0x0p+0f,          -0x1.725388p-20f, -0x1.34a6dep-21f, 0x1.8e4da8p-19f,  0x1.9f9fbep-19f,  0x1.e5db4ep-19f,
           0x1.689026p-19f,  0x1.dfc382p-20f,  -0x1.dd0cbap-20f, 0x1.b59d0cp-22f,  -0x1.59b83ap-20f, 0x1.76671p-19f,
           -0x1.7ff9a2p-19f, 0x1.5b32c2p-20f})};
inline constexpr LogBase base_10{
    0x1.bcb7b2p-2f,
    -0x1.8fa856p-26f,
    0x1.3441p-2f,
    0x1.a84fbcp-21f,
    0x1.67f006p+2f,
    -0x1.86c9bcp+1f,
    0x1.c46db8p+0f,
    -0x1.26bb1ap+0f,
    Table({0x1.355e66p-1f, 0x1.2ec954p-1f, 0x1.287a76p-1f, 0x1.226d84p-1f, 0x1.1c9e86p-1f, 0x1.1709dap-1f,
           0x1.11ac1ep-1f, 0x1.0c823cp-1f, 0x1.07894ep-1f, 0x1.02bea8p-1f, 0x1.fc3fa6p-2f, 0x1.f354fep-2f,
           0x1.eab90cp-2f, 0x1.e267cep-2f, 0x1.da5d8ap-2f, 0x1.d296c4p-2f, 0x1.cb1034p-2f, 0x1.c3c6cep-2f,
           0x1.bcb7b2p-2f, 0x1.af3dc4p-2f, 0x1.a28ec6p-2f, 0x1.969952p-2f, 0x1.8b4df4p-2f, 0x1.809eep-2f,
           0x1.767fbep-2f, 0x1.6ce57ep-2f, 0x1.63c628p-2f, 0x1.5b18bcp-2f, 0x1.52d51ap-2f, 0x1.4af3dep-2f,
           0x1.436e52p-2f, 0x1.3c3e5cp-2f}),
    Table({-0x1.25bap-3f, -0x1.129ap-3f, -0x1.ffcp-4f,  -0x1.db1p-4f, -0x1.b72p-4f,  -0x1.93e8p-4f, -0x1.715cp-4f,
           -0x1.4f7cp-4f, -0x1.2e3cp-4f, -0x1.0d98p-4f, -0x1.db1p-5f, -0x1.9c18p-5f, -0x1.5e38p-5f, -0x1.2168p-5f,
           -0x1.cb4p-6f,  -0x1.55ap-6f,  -0x1.c3ep-7f,  -0x1.c04p-8f, 0x0p+0f,       0x1.b5ep-7f,   0x1.af6p-6f,
           0x1.3edp-5f,   0x1.a308p-5f,  0x1.0244p-4f,  0x1.31b4p-4f, 0x1.5fe8p-4f,  0x1.8cfp-4f,   0x1.b8ep-4f,
           0x1.e3bcp-4f,  0x1.06ccp-3f,  0x1.1b3ep-3f,  0x1.2f3cp-3f}),
    Table({-0x1.06ab5ep-20f, 0x1.611308p-21f,  0x1.0510e2p-22f,  -0x1.edf66ap-20f, -0x1.ca9716p-20f, 0x1.c303c2p-24f,
           -0x1.07e368p-20f, 0x1.4ce444p-20f,  0x1.857488p-20f,  0x1.9839bp-20f,   -0x1.e7766ap-21f, -0x1.7c7fp-21f,
           -0x1.6db7eap-21f, -0x1.a9c8c2p-25f, 0x1.c34c9ep-20f,  0x1.082fe4p-20f,  0x1.ee111p-20f,   0x1.535468p-22f,
           0x0p+0f,          0x1.209d62p-20f,  -0x1.cd3fc6p-24f, 0x1.1c1a5ep-21f,  0x1.4cb05p-20f,   -0x1.77e0f8p-20f,
           -0x1.f24772p-21f, 0x1.922bd4p-26f,  0x1.838864p-20f,  -0x1.ae454cp-20f, 0x1.a30e1ap-24f,  -0x1.512c9ep-22f,
           0x1.d1b254p-21f,  -0x1.2b474cp-20f})};

constexpr bool log_wide = table_entries == 32;
constexpr LogMargin log_margin = {log_wide ? 0x1.5p-23f : 0x1.7p-23f, 0x1p-36f};
constexpr LogMargin log2_margin = {log_wide ? 0x1p-23f : 0x1.3p-23f, 0x1p-36f};
constexpr LogMargin log10_margin = {0x1p-21f, 0x1.8p-36f};
constexpr LogMargin log1p_margin = {log_wide ? 0x1p-26f : 0x1.5p-24f, 0x1p-36f};

// log(x + beside), |beside| at most half an ulp of x.
template <const LogBase& base, bool pair = false>
[[gnu::always_inline]] inline Rounded log_rounded(Vec x, Vec beside, LogMargin margin) {
  constexpr std::int32_t middle = 18 * table_entries / 32;  // the entry of 1
  constexpr int shift = 23 - table_log;                     // bits of m below j
  constexpr std::int32_t first = 0x3f800000 - (2 * middle + 1) * (1 << (shift - 1));

  const Bits shifted = bits_of(x) - first, n = shifted >> 23, power = n << 23;
  const Vec j = vec_of(shifted >> shift), m = vec_of(bits_of(x) - power);
  const Vec exponent{__builtin_convertvector(n, decltype(Vec::v))};

  const Vec inverse = base.inverse[j];
  const Vec product = m * inverse;
  Vec h = product - Vec::set1(base.scale), h_low = fma(m, inverse, -product);  // their sum is exact
  if constexpr (pair) {
    const Bits most = Bits{} + (60 << 23);  // 2**-n, but normal
    const Vec scaled = vec_of(0x3f800000 - (power < most ? power : most));
    h_low = fma(beside * scaled, inverse, h_low);
  }
  const Vec both = h + h_low, square = both * both;
  if constexpr (pair || base.more != 0) {  // h_low is not small beside h near 1
    h_low = h_low - (both - h);
    h = both;
  }
  if constexpr (base.more != 0) h_low = fma(h, Vec::set1(base.more), h_low);

  Vec q = fma(Vec::set1(base.q3), both, Vec::set1(base.q2));
  q = fma(q, both, Vec::set1(base.q1));
  if constexpr (pair) {  // r - r**2 / 2 with what rounding takes from it
    const Vec half = both * Vec::set1(-0.5f);
    h = fma(half, both, both);
    h_low = fma(half, both, both - h) + fma(-both, h_low, h_low);
    q = square * (q * both);
  } else {
    q = square * fma(q, both, Vec::set1(base.q0));
  }

  const Vec whole = fma(exponent, Vec::set1(base.two), base.high[j]);  // exact
  Vec low = base.low[j];
  if constexpr (base.two_low != 0) low = fma(exponent, Vec::set1(base.two_low), low);
  const Vec s = whole + h;
  const Vec rest = ((h - (s - whole)) + (low + h_low)) + q;
  return rounded({s, rest}, fma(square, Vec::set1(margin.far), absolute(s) * Vec::set1(margin.near)));
}

template <const LogBase& base, float (*exact)(float)>
[[gnu::always_inline]] inline Vec log_of(Vec x, LogMargin margin) {
  const Rounded y = log_rounded<base>(x, Vec::zero(), margin);
  const Mask normal = (Vec::set1(0x1p-126f) < x) & (x < Vec::set1(exact::infinity()));
  return or_else<exactly<exact>>(x, y.value, y.decided & normal);
}

[[gnu::always_inline]] inline Vec log(Vec x) { return log_of<base_e, exact::log>(x, log_margin); }
[[gnu::always_inline]] inline Vec log2(Vec x) { return log_of<base_2, exact::log2>(x, log2_margin); }
[[gnu::always_inline]] inline Vec log10(Vec x) { return log_of<base_10, exact::log10>(x, log10_margin); }

[[gnu::always_inline]] inline Vec log1p(Vec x) {
  const Mask usual = not_tiny(x);
  const Vec one = Vec::set1(1.0f), z = where(usual, x);
  const Vec large = larger(one, z), small = smaller(one, z);
  const Vec sum = large + small, beside = small - (sum - large);
  const Rounded y = log_rounded<base_e, true>(sum, beside, log1p_margin);
  const Mask inside = (Vec::set1(-1.0f) < x) & (x < Vec::set1(exact::infinity()));
  return or_else<exactly<exact::log1p>>(x, select(usual, y.value, x), y.decided & inside);
}

#else

inline Vec log(Vec x) { return each_of<exact::log>(x); }
inline Vec log2(Vec x) { return each_of<exact::log2>(x); }
inline Vec log10(Vec x) { return each_of<exact::log10>(x); }
inline Vec log1p(Vec x) { return each_of<exact::log1p>(x); }

#endif

}  // namespace repdl::cpu
