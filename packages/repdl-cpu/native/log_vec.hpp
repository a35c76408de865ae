// log of a whole Vec: the bits of repdl/exact/log.hpp, most of the time without doubles.
//
//   x = 2**n m, 1 / m near inverse_j (j from the leading bits of m), m inverse_j = 1 + r
//   log(x) = (n ln 2 - log(inverse_j)) + log(1 + r)
//
// It is kept as s + rest, a float and its correction, with an error below `margin`; what
// that does not decide, the double function does (exp_vec.hpp says more). For x near 1,
// n = 0 and inverse_j = 1, so that the relative error stays small.
#pragma once

#include "repdl/exact/log.hpp"
#include "simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

[[gnu::always_inline]] inline Vec log(Vec x) {
  // tools/exact/generate_vec.py
  static constexpr Table inverse_table({
      0x1.642c86p+0f, 0x1.5c9882p+0f, 0x1.555556p+0f, 0x1.4e5e0ap+0f, 0x1.47ae14p+0f,
      0x1.414142p+0f, 0x1.3b13b2p+0f, 0x1.3521dp+0f, 0x1.2f684cp+0f, 0x1.29e412p+0f,
      0x1.24924ap+0f, 0x1.1f7048p+0f, 0x1.1a7b96p+0f, 0x1.15b1e6p+0f, 0x1.111112p+0f,
      0x1.0c9714p+0f, 0x1.08421p+0f, 0x1.041042p+0f, 0x1p+0f, 0x1.f07c2p-1f,
      0x1.e1e1e2p-1f, 0x1.d41d42p-1f, 0x1.c71c72p-1f, 0x1.bacf92p-1f, 0x1.af286cp-1f,
      0x1.a41a42p-1f, 0x1.99999ap-1f, 0x1.8f9c18p-1f, 0x1.861862p-1f, 0x1.7d05f4p-1f,
      0x1.745d18p-1f, 0x1.6c16c2p-1f});
  static constexpr Table high_table({
      -0x1.522ap-2f, -0x1.3c26p-2f, -0x1.2696p-2f, -0x1.1178p-2f, -0x1.f99p-3f,
      -0x1.d104p-3f, -0x1.a94p-3f, -0x1.823cp-3f, -0x1.5bf4p-3f, -0x1.366p-3f,
      -0x1.1178p-3f, -0x1.da7p-4f, -0x1.9338p-4f, -0x1.4d3p-4f, -0x1.0858p-4f,
      -0x1.895p-5f, -0x1.041p-5f, -0x1.02p-6f, 0x0p+0f, 0x1.f82p-6f,
      0x1.f0ap-5f, 0x1.6f1p-4f, 0x1.e27p-4f, 0x1.2954p-3f, 0x1.5ff4p-3f,
      0x1.9524p-3f, 0x1.c9p-3f, 0x1.fb9p-3f, 0x1.1676p-2f, 0x1.2e8ep-2f,
      0x1.4618p-2f, 0x1.5d1cp-2f});
  static constexpr Table low_table({
      -0x1.c36714p-19f, 0x1.b5599ap-19f, -0x1.189a6ep-21f, -0x1.cd84fcp-19f, -0x1.c3cb3cp-19f,
      0x1.f066a8p-21f, 0x1.273752p-19f, -0x1.8551a4p-23f, -0x1.ed50f6p-25f, 0x1.c9f538p-22f,
      -0x1.dc44fcp-20f, -0x1.3c1c22p-19f, 0x1.0d9536p-19f, -0x1.165208p-20f, -0x1.9959e4p-20f,
      0x1.5f2d82p-19f, -0x1.72279ep-19f, -0x1.68e24ep-20f, 0x0p+0f, 0x1.321cfp-19f,
      0x1.85008cp-20f, -0x1.6c68d4p-19f, 0x1.d38abcp-22f, 0x1.2c42p-19f, -0x1.f3eb0ep-20f,
      0x1.a80f46p-19f, -0x1.0b0cacp-20f, 0x1.8bd5e4p-19f, -0x1.b42a2cp-21f, 0x1.5f708ep-21f,
      0x1.74438cp-19f, -0x1.2d53fcp-21f});
  constexpr std::int32_t middle = 18 * table_entries / 32;  // the entry of 1
  constexpr int shift = 23 - table_log;                     // bits of m below j
  constexpr std::int32_t first = 0x3f800000 - (2 * middle + 1) * (1 << (shift - 1));

  const Bits shifted = bits_of(x) - first, n = shifted >> 23;
  const Vec j = vec_of(shifted >> shift), m = vec_of(bits_of(x) - (n << 23));
  const Vec exponent{__builtin_convertvector(n, decltype(Vec::v))};

  const Vec inverse = inverse_table[j];
  const Vec product = m * inverse, high_r = product - Vec::set1(1.0f);
  const Vec low_r = fma(m, inverse, -product);  // high_r + low_r is exact
  const Vec r = high_r + low_r, square = r * r;

  // log(1 + r) = r + q
  Vec q = fma(Vec::set1(0x1.99beecp-3f), r, Vec::set1(-0x1.0015c4p-2f));
  q = fma(q, r, Vec::set1(0x1.555554p-2f));
  q = square * fma(q, r, Vec::set1(-0.5f));

  const Vec base = fma(exponent, Vec::set1(0x1.62e4p-1f), high_table[j]);  // exact
  const Vec low = fma(exponent, Vec::set1(0x1.7f7d1cp-20f), low_table[j]) + low_r;
  const Vec s = base + high_r;
  const Vec rest = ((high_r - (s - base)) + low) + q;
  const Vec margin = fma(square, Vec::set1(0x1.6p-23f), absolute(s) * Vec::set1(0x1p-36f));
  const Mask normal = (Vec::set1(0x1p-126f) < x) & (x < Vec::set1(exact::infinity()));
  return rounded_or<exact::log>(x, {s, rest}, margin, normal);
}

#else

inline Vec log(Vec x) { return each_of<exact::log>(x); }

#endif

}  // namespace repdl::cpu
