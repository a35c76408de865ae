// sin and cos of a whole Vec: the bits of repdl/exact/sin.hpp, most of the time without doubles.
//
//   x = k step + r,  |r| <= step / 2,  step = pi / entries,  j the low bits of k
//   sin(x) = +-(S_j cos(r) + C_j sin(r)),  S_j = sin(j step),  C_j = cos(j step)
//
// with S_j, C_j and r as sums of two floats. cos(x) has k + entries / 2 instead of k. simd_mask.hpp says how
// results are decided; beyond 2**17 the double functions compute.
#pragma once

#include "repdl/exact/sin.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

// The margin is relative |s|, of which only `bound` counts, + reduction |x|: the largest errors that were
// measured, and a little. The second is for results near 0, whose r is small.
struct SinMargin {
  float relative, bound, reduction;
};
constexpr SinMargin sin_margin =
    table_entries == 32 ? SinMargin{0x1.2p-33f, 0.09f, 0x1p-49f} : SinMargin{0x1.2p-31f, 0.18f, 0x1p-49f};

// sin(x + turn step), turn 0 or entries / 2; |x| <= 2**17.
[[gnu::always_inline]] inline Rounded sin_rounded(Vec x, std::int32_t turn) {
  // tools/exact/generate_vec.py
  static constexpr Table sine(
      {0x0p+0f,        0x1.917a6cp-4f, 0x1.8f8b84p-3f, 0x1.294062p-2f, 0x1.87de2ap-2f, 0x1.e2b5d4p-2f, 0x1.1c73b4p-1f,
       0x1.44cf32p-1f, 0x1.6a09e6p-1f, 0x1.8bc806p-1f, 0x1.a9b662p-1f, 0x1.c38b3p-1f,  0x1.d906bcp-1f, 0x1.e9f416p-1f,
       0x1.f6297cp-1f, 0x1.fd88dap-1f, 0x1p+0f,        0x1.fd88dap-1f, 0x1.f6297cp-1f, 0x1.e9f416p-1f, 0x1.d906bcp-1f,
       0x1.c38b3p-1f,  0x1.a9b662p-1f, 0x1.8bc806p-1f, 0x1.6a09e6p-1f, 0x1.44cf32p-1f, 0x1.1c73b4p-1f, 0x1.e2b5d4p-2f,
       0x1.87de2ap-2f, 0x1.294062p-2f, 0x1.8f8b84p-3f, 0x1.917a6cp-4f});
  static constexpr Table sine_low(
      {0x0p+0f,          -0x1.eb25eap-31f, -0x1.cb2cfap-30f, 0x1.dab3ep-27f,   0x1.abaa58p-28f, -0x1.fe4272p-28f,
       -0x1.9465cep-27f, 0x1.424776p-27f,  0x1.9fcef4p-27f,  0x1.62a2e8p-26f,  0x1.21d434p-26f, -0x1.cfe84ap-26f,
       0x1.e651a8p-26f,  -0x1.273a44p-26f, 0x1.feeb96p-26f,  0x1.e89292p-28f,  0x0p+0f,         0x1.e89292p-28f,
       0x1.feeb96p-26f,  -0x1.273a44p-26f, 0x1.e651a8p-26f,  -0x1.cfe84ap-26f, 0x1.21d434p-26f, 0x1.62a2e8p-26f,
       0x1.9fcef4p-27f,  0x1.424776p-27f,  -0x1.9465cep-27f, -0x1.fe4272p-28f, 0x1.abaa58p-28f, 0x1.dab3ep-27f,
       -0x1.cb2cfap-30f, -0x1.eb25eap-31f});
  static constexpr Table cosine({0x1p+0f,         0x1.fd88dap-1f,  0x1.f6297cp-1f,  0x1.e9f416p-1f,  0x1.d906bcp-1f,
                                 0x1.c38b3p-1f,   0x1.a9b662p-1f,  0x1.8bc806p-1f,  0x1.6a09e6p-1f,  0x1.44cf32p-1f,
                                 0x1.1c73b4p-1f,  0x1.e2b5d4p-2f,  0x1.87de2ap-2f,  0x1.294062p-2f,  0x1.8f8b84p-3f,
                                 0x1.917a6cp-4f,  0x0p+0f,         -0x1.917a6cp-4f, -0x1.8f8b84p-3f, -0x1.294062p-2f,
                                 -0x1.87de2ap-2f, -0x1.e2b5d4p-2f, -0x1.1c73b4p-1f, -0x1.44cf32p-1f, -0x1.6a09e6p-1f,
                                 -0x1.8bc806p-1f, -0x1.a9b662p-1f, -0x1.c38b3p-1f,  -0x1.d906bcp-1f, -0x1.e9f416p-1f,
                                 -0x1.f6297cp-1f, -0x1.fd88dap-1f});
  static constexpr Table cosine_low(
      {0x0p+0f,          0x1.e89292p-28f,  0x1.feeb96p-26f,  -0x1.273a44p-26f, 0x1.e651a8p-26f,  -0x1.cfe84ap-26f,
       0x1.21d434p-26f,  0x1.62a2e8p-26f,  0x1.9fcef4p-27f,  0x1.424776p-27f,  -0x1.9465cep-27f, -0x1.fe4272p-28f,
       0x1.abaa58p-28f,  0x1.dab3ep-27f,   -0x1.cb2cfap-30f, -0x1.eb25eap-31f, 0x0p+0f,          0x1.eb25eap-31f,
       0x1.cb2cfap-30f,  -0x1.dab3ep-27f,  -0x1.abaa58p-28f, 0x1.fe4272p-28f,  0x1.9465cep-27f,  -0x1.424776p-27f,
       -0x1.9fcef4p-27f, -0x1.62a2e8p-26f, -0x1.21d434p-26f, 0x1.cfe84ap-26f,  -0x1.e651a8p-26f, 0x1.273a44p-26f,
       -0x1.feeb96p-26f, -0x1.e89292p-28f});
  constexpr float steps = 32 / table_entries;
  const Vec shifted = fma(x, Vec::set1(0x1.45f306p+3f / steps), Vec::set1(0x1.8p+23f));
  const Vec k = shifted - Vec::set1(0x1.8p+23f);
  const Vec near = fma(k, Vec::set1(-0x1.921fb6p-4f * steps), x);  // exact
  const Vec r = fma(k, Vec::set1(0x1.777a5cp-29f * steps), near);
  Vec r_low = fma(k, Vec::set1(0x1.777a5cp-29f * steps), near - r);
  r_low = fma(k, Vec::set1(0x1.ee59dap-54f * steps), r_low);

  const Bits place = bits_of(shifted) + turn;
  const Vec j = vec_of(place);
  const Vec s_j = sine[j], c_j = cosine[j];
  const Vec line = fma(c_j, r, s_j), line_rest = fma(c_j, r, s_j - line);

  // The same for -s_j r**2 / 2, bend.
  const Vec square = r * r, square_rest = fma(r, r, -square);
  const Vec half = s_j * Vec::set1(-0.5f), bend = half * square;
  const Vec bend_rest = fma(half, square_rest, fma(half, square, -bend));
  const Vec s = line + bend, s_rest = (bend - (s - line)) + (line_rest + bend_rest);

  // sin(r) = r + r**3 p, cos(r) = 1 - r**2 (1 + r**2 q) / 2; r_low moves the result by r_low (c_j - s_j r).
  const Vec p = fma(square, Vec::set1(0x1.1100fep-7f), Vec::set1(-0x1.555556p-3f));
  const Vec q = fma(square, Vec::set1(0x1.6bfea6p-9f), Vec::set1(-0x1.555554p-4f));
  const Vec flat = fma(square, Vec::set1(-0.5f), Vec::set1(1.0f));
  Vec rest = fma(cosine_low[j], r, fma(sine_low[j], flat, s_rest));
  rest = fma(fma(-s_j, r, c_j), r_low, rest);
  rest = fma(bend, square * q, rest);
  rest = fma(c_j * r, square * p, rest);

  const Vec bound = smaller(absolute(s), Vec::set1(sin_margin.bound));
  const Vec margin = fma(absolute(x), Vec::set1(sin_margin.reduction), bound * Vec::set1(sin_margin.relative));
  const Rounded y = rounded({s, rest}, margin);
  const Bits sign = (place << (31 - table_log)) & bits_of(Vec::set1(-0.0f));
  return {vec_of(bits_of(y.value) ^ sign), y.decided};
}

inline Mask sin_reduces(Vec x) { return absolute(x) < Vec::set1(0x1p+17f); }

template <class V>
[[gnu::always_inline]] inline V sin(V given) {
  const Vec x = value_of(given);
  const Mask usual = not_tiny(x);
  const Rounded y = sin_rounded(where(usual, x), 0);
  return or_else<exactly<exact::Sin>>(given, select(usual, y.value, x), y.decided & sin_reduces(x));
}

template <class V>
[[gnu::always_inline]] inline V cos(V given) {
  const Vec x = value_of(given);
  const Vec z = where(not_tiny(x), x);
  const Rounded y = sin_rounded(z, table_entries / 2);
  return or_else<exactly<exact::Cos>>(given, y.value, y.decided & sin_reduces(x));
}

#else

inline Vec sin(Vec x) { return each_of<exact::sin>(x); }
inline Vec cos(Vec x) { return each_of<exact::cos>(x); }

#endif

}  // namespace repdl::cpu
