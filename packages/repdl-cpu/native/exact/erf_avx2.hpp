// erf by pairs of floats, as repdl/exact/pairs/erf.hpp, for AVX2: with tables of eight entries, which one instruction
// looks up. Sixteen entries take three, and most of the time went there.
//
//   z = |x| = centre + r of one of eight intervals: four of 0.27 up to 1.10, then three of 0.55, and the rest
//   erf(z) = c0 + r (c1 + r (c2 + ...)), centres where c0 and c2 are nearly floats, c1 with a correction
#pragma once

#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)

struct Eight {
  alignas(32) float entry[8];

  // The entries at the last three bits of index.
  Vec operator[](Bits index) const {
    return {_mm256_permutevar8x32_ps(_mm256_load_ps(entry), reinterpret_cast<__m256i>(index))};
  }
};

[[gnu::always_inline]] inline Rounded erf_by_eight(Vec x) {
  // tools/exact/generate_vec.py
  static constexpr Eight centre{{0x1.57bb9ep+0f, 0x1.eabf38p+0f, 0x1.39139ap+1f, 0x1.a9ac06p+1f, 0x0p+0f,
                                 0x1.9e2cbap-2f, 0x1.60346p-1f, 0x1.ef4c12p-1f}};
  static constexpr Eight c0{{0x1.e284bcp-1f, 0x1.fc90dp-1f, 0x1.ffb8f2p-1f, 0x1.ffffaap-1f, 0x0p+0f, 0x1.bb108ep-2f,
                             0x1.56b718p-1f, 0x1.a84cfcp-1f}};
  static constexpr Eight c1{{0x1.7ce6bcp-3f, 0x1.d4bb2ep-6f, 0x1.7515a8p-9f, 0x1.29f4ap-16f, 0x1.20dd76p+0f,
                             0x1.ea8b02p-1f, 0x1.67ed4ap-1f, 0x1.c53f02p-2f}};
  static constexpr Eight c1_low{{0x1.3a3e24p-29f, 0x1.e46d08p-32f, 0x1.65d0bp-36f, 0x1.786c44p-41f, -0x1.f7ef0ep-25f,
                                 -0x1.ea1ae2p-26f, 0x1.912628p-26f, 0x1.257fa6p-28f}};
  static constexpr Eight c2{{-0x1.ff704ep-3f, -0x1.c14632p-5f, -0x1.c8440cp-8f, -0x1.ef672p-15f, 0x0p+0f,
                             -0x1.8cd14p-2f, -0x1.ef2feap-2f, -0x1.b675c2p-2f}};
  static constexpr Eight c3{{0x1.4ad748p-3f, 0x1.f00b7p-5f, 0x1.54e79ap-7f, 0x1.063476p-13f, -0x1.812746p-2f,
                             -0x1.b80ec4p-3f, -0x1.9b7994p-7f, 0x1.0760a6p-3f}};
  static constexpr Eight c4{{-0x1.9d0d46p-6f, -0x1.45b25cp-5f, -0x1.54ddc6p-7f, -0x1.8ae67cp-13f, 0x0p+0f,
                             0x1.618a14p-3f, 0x1.52f88ap-3f, 0x1.49d3e2p-4f}};
  static constexpr Eight c5{{-0x1.1e15b6p-5f, 0x1.93b528p-7f, 0x1.ce72bcp-8f, 0x1.be1166p-13f, 0x1.ce2e92p-4f,
                             0x1.2b4802p-5f, -0x1.5634cap-5f, -0x1.1da73ap-4f}};
  static constexpr Eight c6{{0x1.6e3138p-6f, 0x1.66496ep-9f, -0x1.86942p-9f, -0x1.83a9a4p-13f, 0x0p+0f, -0x1.a16bbcp-5f,
                             -0x1.1b63c6p-5f, 0x1.0bc91cp-10f}};
  static constexpr Eight c7{{-0x1.19daap-12f, -0x1.221beep-8f, 0x1.a2e83ap-12f, 0x1.097664p-13f, -0x1.b7f856p-6f,
                             -0x1.72884cp-9f, 0x1.0f504ap-6f, 0x1.0bf3acp-6f}};
  static constexpr Eight c8{{-0x1.30758ap-8f, 0x1.8272a8p-10f, 0x1.a9732p-12f, -0x1.1c6f6ap-14f, 0x1.44774cp-100f,
                             0x1.6973ep-7f, 0x1.6c74b4p-8f, -0x1.1d76f8p-8f}};

  const Mask usual = not_tiny(x);
  const Vec z = smaller(Vec::set1(3.925f), mask_or_zero(usual, absolute(x)));  // 1 from there on
  // 1 to 4, whose last bit of the exponent and first two of the mantissa tell the interval.
  const Vec place = smaller(Vec::set1(0x1.fffffep+1f), fma(z, Vec::set1(0.91f), Vec::set1(1.0f)));
  const Bits i = bits_of(place) >> 21;
  const Vec r = z - centre[i];  // exact

  // Three steps of Horner's rule with what rounding takes from them, which the other terms join:
  // t + t_rest = c2 + c3 r,  slope + slope_rest = c1 + t r,  s + s_rest = c0 + slope r.
  const Vec b0 = c0[i], b1 = c1[i], b2 = c2[i], b3 = c3[i];
  const Vec t = fma(b3, r, b2), t_rest = fma(b3, r, b2 - t);
  const Vec slope = fma(t, r, b1), slope_rest = fma(t, r, b1 - slope);
  const Vec s = fma(slope, r, b0), s_rest = fma(slope, r, b0 - s);

  const Vec r2 = r * r, b8 = c8[i], b9 = vec_of(bits_of(b8) << 16);  // the last bits of c8 are those of c9
  Vec q = fma(fma(b9, r, b8), r2, fma(c7[i], r, c6[i]));
  q = fma(q, r2, fma(c5[i], r, c4[i]));
  q = fma(q, r2, t_rest);
  q = fma(q, r, slope_rest + c1_low[i]);
  const Vec rest = fma(q, r, s_rest);

  // Measured: the error is largest relative to the result in the first interval, and as such in the last one.
  const Vec margin = smaller(Vec::set1(0.66f), s) * Vec::set1(0x1.12p-33f);
  const Rounded y = pairs::rounded(pairs::DoubleFloat<Vec>{s, rest}, margin);
  // Of the tiny arguments only zeros are decided.
  return {with_sign(y.value, x), y.decided & (usual | (x == Vec::zero()))};
}

#endif

}  // namespace repdl::cpu
