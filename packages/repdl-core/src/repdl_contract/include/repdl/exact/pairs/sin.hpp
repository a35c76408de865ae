// sin and cos by pairs of floats (pairs.hpp).
//
//   x = k step + r,  |r| <= step / 2,  step = pi / entries,  j the low bits of k
//   sin(x) = +-(S_j cos(r) + C_j sin(r)),  S_j = sin(j step),  C_j = cos(j step)
//
// with S_j, C_j and r as sums of two floats. cos(x) has k + entries / 2 instead of k. Beyond 2**17 the double
// functions compute.
#pragma once

#include <cstdint>

#include "repdl/exact/pairs/pairs.hpp"

namespace repdl::exact::pairs {

// The margin is relative |s|, of which only `bound` counts, + reduction |x|: the largest errors that were
// measured, and a little. The second is for results near 0, whose r is small.
struct SinMargin {
  float relative, bound, reduction;
};
template <class V>
constexpr SinMargin sin_margin =
    entries<V> == 32 ? SinMargin{0x1.2p-33f, 0.09f, 0x1p-49f} : SinMargin{0x1.2p-31f, 0.18f, 0x1p-49f};

// sin(x + turn step), turn 0 or entries / 2; |x| <= 2**17.
template <class V>
REPDL_HD_INLINE Rounded<V> sin_rounded(V x, std::int32_t turn) {
  // tools/exact/generate_vec.py
  static constexpr Table<V> sine(
      {0x0p+0f,        0x1.917a6cp-4f, 0x1.8f8b84p-3f, 0x1.294062p-2f, 0x1.87de2ap-2f, 0x1.e2b5d4p-2f, 0x1.1c73b4p-1f,
       0x1.44cf32p-1f, 0x1.6a09e6p-1f, 0x1.8bc806p-1f, 0x1.a9b662p-1f, 0x1.c38b3p-1f,  0x1.d906bcp-1f, 0x1.e9f416p-1f,
       0x1.f6297cp-1f, 0x1.fd88dap-1f, 0x1p+0f,        0x1.fd88dap-1f, 0x1.f6297cp-1f, 0x1.e9f416p-1f, 0x1.d906bcp-1f,
       0x1.c38b3p-1f,  0x1.a9b662p-1f, 0x1.8bc806p-1f, 0x1.6a09e6p-1f, 0x1.44cf32p-1f, 0x1.1c73b4p-1f, 0x1.e2b5d4p-2f,
       0x1.87de2ap-2f, 0x1.294062p-2f, 0x1.8f8b84p-3f, 0x1.917a6cp-4f});
  static constexpr Table<V> sine_low(
      {0x0p+0f,          -0x1.eb25eap-31f, -0x1.cb2cfap-30f, 0x1.dab3ep-27f,   0x1.abaa58p-28f, -0x1.fe4272p-28f,
       -0x1.9465cep-27f, 0x1.424776p-27f,  0x1.9fcef4p-27f,  0x1.62a2e8p-26f,  0x1.21d434p-26f, -0x1.cfe84ap-26f,
       0x1.e651a8p-26f,  -0x1.273a44p-26f, 0x1.feeb96p-26f,  0x1.e89292p-28f,  0x0p+0f,         0x1.e89292p-28f,
       0x1.feeb96p-26f,  -0x1.273a44p-26f, 0x1.e651a8p-26f,  -0x1.cfe84ap-26f, 0x1.21d434p-26f, 0x1.62a2e8p-26f,
       0x1.9fcef4p-27f,  0x1.424776p-27f,  -0x1.9465cep-27f, -0x1.fe4272p-28f, 0x1.abaa58p-28f, 0x1.dab3ep-27f,
       -0x1.cb2cfap-30f, -0x1.eb25eap-31f});
  static constexpr Table<V> cosine({0x1p+0f,         0x1.fd88dap-1f,  0x1.f6297cp-1f,  0x1.e9f416p-1f,  0x1.d906bcp-1f,
                                    0x1.c38b3p-1f,   0x1.a9b662p-1f,  0x1.8bc806p-1f,  0x1.6a09e6p-1f,  0x1.44cf32p-1f,
                                    0x1.1c73b4p-1f,  0x1.e2b5d4p-2f,  0x1.87de2ap-2f,  0x1.294062p-2f,  0x1.8f8b84p-3f,
                                    0x1.917a6cp-4f,  0x0p+0f,         -0x1.917a6cp-4f, -0x1.8f8b84p-3f, -0x1.294062p-2f,
                                    -0x1.87de2ap-2f, -0x1.e2b5d4p-2f, -0x1.1c73b4p-1f, -0x1.44cf32p-1f, -0x1.6a09e6p-1f,
                                    -0x1.8bc806p-1f, -0x1.a9b662p-1f, -0x1.c38b3p-1f,  -0x1.d906bcp-1f, -0x1.e9f416p-1f,
                                    -0x1.f6297cp-1f, -0x1.fd88dap-1f});
  static constexpr Table<V> cosine_low(
      {0x0p+0f,          0x1.e89292p-28f,  0x1.feeb96p-26f,  -0x1.273a44p-26f, 0x1.e651a8p-26f,  -0x1.cfe84ap-26f,
       0x1.21d434p-26f,  0x1.62a2e8p-26f,  0x1.9fcef4p-27f,  0x1.424776p-27f,  -0x1.9465cep-27f, -0x1.fe4272p-28f,
       0x1.abaa58p-28f,  0x1.dab3ep-27f,   -0x1.cb2cfap-30f, -0x1.eb25eap-31f, 0x0p+0f,          0x1.eb25eap-31f,
       0x1.cb2cfap-30f,  -0x1.dab3ep-27f,  -0x1.abaa58p-28f, 0x1.fe4272p-28f,  0x1.9465cep-27f,  -0x1.424776p-27f,
       -0x1.9fcef4p-27f, -0x1.62a2e8p-26f, -0x1.21d434p-26f, 0x1.cfe84ap-26f,  -0x1.e651a8p-26f, 0x1.273a44p-26f,
       -0x1.feeb96p-26f, -0x1.e89292p-28f});
  constexpr float steps = 32 / entries<V>;
  const V shifted = fma(x, V::set1(0x1.45f306p+3f / steps), V::set1(0x1.8p+23f));
  const V k = shifted - V::set1(0x1.8p+23f);
  const V near = fma(k, V::set1(-0x1.921fb6p-4f * steps), x);  // exact
  const V r = fma(k, V::set1(0x1.777a5cp-29f * steps), near);
  V r_low = fma(k, V::set1(0x1.777a5cp-29f * steps), near - r);
  r_low = fma(k, V::set1(0x1.ee59dap-54f * steps), r_low);

  const auto place = bits_of(shifted) + turn;
  const V j = with_bits<V>(place);
  const V s_j = sine[j], c_j = cosine[j];
  const V line = fma(c_j, r, s_j), line_rest = fma(c_j, r, s_j - line);

  // The same for -s_j r**2 / 2, bend.
  const V square = r * r, square_rest = fma(r, r, -square);
  const V half = s_j * V::set1(-0.5f), bend = half * square;
  const V bend_rest = fma(half, square_rest, fma(half, square, -bend));
  const V s = line + bend, s_rest = (bend - (s - line)) + (line_rest + bend_rest);

  // sin(r) = r + r**3 p, cos(r) = 1 - r**2 (1 + r**2 q) / 2; r_low moves the result by r_low (c_j - s_j r).
  const V p = fma(square, V::set1(0x1.1100fep-7f), V::set1(-0x1.555556p-3f));
  const V q = fma(square, V::set1(0x1.6bfea6p-9f), V::set1(-0x1.555554p-4f));
  const V flat = fma(square, V::set1(-0.5f), V::set1(1.0f));
  V rest = fma(cosine_low[j], r, fma(sine_low[j], flat, s_rest));
  rest = fma(fma(-s_j, r, c_j), r_low, rest);
  rest = fma(bend, square * q, rest);
  rest = fma(c_j * r, square * p, rest);

  const V bound = smaller(V::set1(sin_margin<V>.bound), absolute(s));
  const V margin = fma(absolute(x), V::set1(sin_margin<V>.reduction), bound * V::set1(sin_margin<V>.relative));
  const Rounded<V> y = rounded(DoubleFloat<V>{s, rest}, margin);
  const auto sign = (place << (31 - table_log<V>)) & bits_of(V::set1(-0.0f));
  return {with_bits<V>(bits_of(y.value) ^ sign), y.decided};
}

template <class V>
REPDL_HD_INLINE auto sin_reduces(V x) {
  return absolute(x) < V::set1(0x1p+17f);
}

template <class V>
REPDL_HD_INLINE Rounded<V> sin(V x) {
  const auto usual = not_tiny(x);
  const Rounded<V> y = sin_rounded(mask_or_zero(usual, x), 0);
  return {select(usual, y.value, x), y.decided & sin_reduces(x)};
}

template <class V>
REPDL_HD_INLINE Rounded<V> cos(V x) {
  const V z = mask_or_zero(not_tiny(x), x);
  const Rounded<V> y = sin_rounded(z, entries<V> / 2);
  return {y.value, y.decided & sin_reduces(x)};
}

}  // namespace repdl::exact::pairs
