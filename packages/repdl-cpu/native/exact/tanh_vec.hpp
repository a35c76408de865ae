// tanh of a whole Vec: the bits of repdl/exact/tanh.hpp, most of the time without doubles.
//
// Where tables have 32 entries, an interval of |x| has a centre c and a polynomial of |x| - c = t:
//   slope = c1 + c2 t;  s = c0 + slope t;  each with what its rounding takes from it, and the higher powers
// s and rest are never more than tanh(|x|), and at most `margin` s less. c is one of the floats near the middle
// for which c0, c1 and c2 are nearly floats (Gal, "An accurate elementary mathematical library for the IEEE
// floating point standard", ACM TOMS 17, 1991): tools/exact/generate_vec.py.
//
// Elsewhere as repdl/exact/pairs/tanh.hpp says.
//
// simd_mask.hpp says how results are decided.
#pragma once

#include "repdl/exact/pairs/tanh.hpp"
#include "repdl/exact/tanh.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX512F__)

// The interval of |x| is in the leading bits of |x| + tanh_shift. Of the first, c1 = 1 and c0, c2 = 0.
constexpr float tanh_shift = 0x1.56p-1f;

template <class V>
[[gnu::always_inline]] inline V tanh(V given) {
  // tools/exact/generate_vec.py
  static constexpr Table centre(
      {0x1.7468a6p+0f, 0x1.b39514p+0f, 0x1.f5dbfap+0f, 0x1.1a08c4p+1f, 0x1.36ecf6p+1f, 0x1.5d2d4cp+1f, 0x1.79402p+1f,
       0x1.9b692p+1f,  0x1.cafc38p+1f, 0x1.04bee6p+2f, 0x1.25a74p+2f,  0x1.45e54p+2f,  0x1.65a13ep+2f, 0x1.85cc3ap+2f,
       0x1.a6f84p+2f,  0x1.c79ab8p+2f, 0x1.f7041p+2f,  0x1.154248p+3f, 0x0p+0f,        0x1.2d8f36p-5f, 0x1.b793bcp-4f,
       0x1.5d926p-3f,  0x1.f8b7bp-3f,  0x1.43c442p-2f, 0x1.a0626cp-2f, 0x1.0e6df2p-1f, 0x1.44275ep-1f, 0x1.8a0eecp-1f,
       0x1.c8a052p-1f, 0x1.08f822p+0f, 0x1.24cb5ep+0f, 0x1.48a154p+0f});
  static constexpr Table c0(
      {0x1.cb121ep-1f, 0x1.df066p-1f,  0x1.ec17d8p-1f, 0x1.f3a9d8p-1f, 0x1.f81c4ep-1f, 0x1.fba52p-1f,  0x1.fd2fecp-1f,
       0x1.fe5944p-1f, 0x1.ff36dp-1f,  0x1.ffb434p-1f, 0x1.ffe4e4p-1f, 0x1.fff61ap-1f, 0x1.fffc54p-1f, 0x1.fffea8p-1f,
       0x1.ffff86p-1f, 0x1.ffffd4p-1f, 0x1.fffff6p-1f, 0x1.fffffep-1f, 0x0p+0f,        0x1.2d6c5cp-5f, 0x1.b5e5b2p-4f,
       0x1.5a374ap-3f, 0x1.eebdeap-3f, 0x1.396476p-2f, 0x1.8adbaep-2f, 0x1.ef9b3cp-2f, 0x1.1ed17ap-1f, 0x1.4b1f48p-1f,
       0x1.6cb34ap-1f, 0x1.8d456ep-1f, 0x1.a19eeep-1f, 0x1.b70666p-1f});
  static constexpr Table c1({0x1.918c0ep-3f,  0x1.fe9c92p-4f,  0x1.38515ep-4f,  0x1.86037ap-5f,  0x1.f5089cp-6f,
                             0x1.15888cp-6f,  0x1.670cd2p-7f,  0x1.a60d7cp-8f,  0x1.9210fap-9f,  0x1.2f1996p-10f,
                             0x1.b1b48ep-12f, 0x1.3cbcf8p-13f, 0x1.d5fe5ap-15f, 0x1.57ff94p-16f, 0x1.e7ffd6p-18f,
                             0x1.5ffffep-19f, 0x1.400214p-21f, 0x1.000076p-23f, 0x1p+0f,         0x1.ff4e8cp-1f,
                             0x1.fa25ecp-1f,  0x1.f15e34p-1f,  0x1.e21ef4p-1f,  0x1.d00b26p-1f,  0x1.b3dee2p-1f,
                             0x1.8810cap-1f,  0x1.5f53a4p-1f,  0x1.29db0cp-1f,  0x1.f871a8p-2f,  0x1.977f96p-2f,
                             0x1.56b8dap-2f,  0x1.0f190ep-2f});
  static constexpr Table c2({-0x1.680944p-3f,  -0x1.ddb9d6p-4f,  -0x1.2c2cbcp-4f,  -0x1.7c9dc4p-5f,  -0x1.ed502cp-6f,
                             -0x1.132c38p-6f,  -0x1.6513dap-7f,  -0x1.a4b104p-8f,  -0x1.9172f8p-9f,  -0x1.2eecb4p-10f,
                             -0x1.b19d92p-12f, -0x1.3cb6d4p-13f, -0x1.d5faf6p-15f, -0x1.57fea8p-16f, -0x1.e7ff5ap-18f,
                             -0x1.5fffdap-19f, -0x1.4001p-21f,   -0x1.00003p-23f,  0x0p+0f,          -0x1.2d03e4p-5f,
                             -0x1.b0e47p-4f,   -0x1.50525ep-3f,  -0x1.d1deb2p-3f,  -0x1.1c09dep-2f,  -0x1.502588p-2f,
                             -0x1.7b831ap-2f,  -0x1.899eecp-2f,  -0x1.81429ep-2f,  -0x1.675172p-2f,  -0x1.3c2fbp-2f,
                             -0x1.178bfp-2f,   -0x1.d0eabep-3f});
  static constexpr Table c3({0x1.79f064p-4f,  0x1.14c1bp-4f,   0x1.70cc0ep-5f,  0x1.e2e1d6p-6f,  0x1.3eb334p-6f,
                             0x1.68a3f6p-7f,  0x1.d6dcfcp-8f,  0x1.16a64ap-8f,  0x1.0acb4ep-9f,  0x1.9367ap-11f,
                             0x1.20f01p-12f,  0x1.a6310cp-14f, 0x1.39480cp-15f, 0x1.ca9e28p-17f, 0x1.454d1p-18f,
                             0x1.d5491ap-20f, 0x1.aa24aep-22f, 0x1.552348p-24f, -0x1.55555ap-2f, -0x1.537c8ep-2f,
                             -0x1.45dcbap-2f, -0x1.2f269cp-2f, -0x1.0924aap-2f, -0x1.bcdda4p-3f, -0x1.41ec5cp-3f,
                             -0x1.36ca56p-4f, -0x1.b6df94p-7f, 0x1.94aff6p-5f,  0x1.5f2f3ep-4f,  0x1.b60296p-4f,
                             0x1.c71a32p-4f,  0x1.b3d7ap-4f});
  static constexpr Table c4({-0x1.8b5e14p-6f,  -0x1.8ebf02p-6f,  -0x1.34ae6p-6f,   -0x1.b3009ap-7f,  -0x1.2ab468p-7f,
                             -0x1.5c4028p-8f,  -0x1.cc6f32p-9f,  -0x1.13048cp-9f,  -0x1.09274p-10f,  -0x1.927d74p-12f,
                             -0x1.20b1d8p-13f, -0x1.a60ab4p-15f, -0x1.39369ap-16f, -0x1.ca89ccp-18f, -0x1.4540b8p-19f,
                             -0x1.d53bfcp-21f, -0x1.aa18aap-23f, -0x1.552bf2p-25f, 0x1.9c424p-21f,   0x1.90ad9cp-6f,
                             0x1.1bb442p-4f,   0x1.ad2a44p-4f,   0x1.1b686cp-3f,   0x1.45b90ap-3f,   0x1.5c3cp-3f,
                             0x1.48366ep-3f,   0x1.15c564p-3f,   0x1.7ed822p-4f,   0x1.c9e0ccp-5f,   0x1.46d7fap-6f,
                             0x1.85a432p-12f,  -0x1.fe1e32p-7f});
  static constexpr Table c5({-0x1.3ff53ap-8f, 0x1.83230ap-9f,  0x1.38dac2p-8f,  0x1.1246e2p-8f,  0x1.9feaeep-9f,
                             0x1.039ea6p-9f,  0x1.60a708p-10f, 0x1.ad6c2cp-11f, 0x1.a727d4p-12f, 0x1.43d906p-13f,
                             0x1.d20b44p-15f, 0x1.551866p-16f, 0x1.fa6362p-18f, 0x1.72c9a4p-19f, 0x1.073f62p-20f,
                             0x1.7c0c28p-22f, 0x1.648d06p-24f, 0x1.196442p-26f, 0x1.11011p-3f,   0x1.0cebep-3f,
                             0x1.eecf14p-4f,  0x1.a37816p-4f,  0x1.2fd644p-4f,  0x1.8a602ep-5f,  0x1.856a0cp-8f,
                             -0x1.1e6b32p-5f, -0x1.cbec3p-5f,  -0x1.057e08p-4f, -0x1.d61162p-5f, -0x1.5a64cep-5f,
                             -0x1.e931d2p-6f, -0x1.0ae6ap-6f});
  static constexpr Table c6({0x1.13ef74p-7f,   0x1.5eaaep-9f,    0x1.dee7ecp-15f,  -0x1.6e482ep-11f, -0x1.89d138p-11f,
                             -0x1.26f4d8p-11f, -0x1.b1ac2ap-12f, -0x1.1a4ab4p-12f, -0x1.136a32p-13f, -0x1.a90d26p-15f,
                             -0x1.36c552p-16f, -0x1.ca2848p-18f, -0x1.55e31ap-19f, -0x1.f6940ep-21f, -0x1.65d562p-22f,
                             -0x1.01a06ep-23f, -0x1.e0ebc8p-26f, -0x1.74c91p-28f,  -0x1.e8d66ap-11f, -0x1.6956c6p-7f,
                             -0x1.a6a2cap-5f,  -0x1.99644ep-5f,  -0x1.0b9494p-4f,  -0x1.afd716p-6f,  -0x1.0ec762p-4f,
                             -0x1.6a2ad8p-5f,  -0x1.524b2ap-6f,  0x1.1e868p-11f,   0x1.da37fp-7f,    0x1.3ebaf8p-6f,
                             0x1.25b1p-6f,     0x1.bff566p-7f});
  static constexpr Table margin({0x1.42bdc4p-33f, 0x1.ab6612p-34f, 0x1.389e52p-34f, 0x1.78033p-36f,  0x1.d79b66p-36f,
                                 0x1.6c75aep-36f, 0x1.d735dep-37f, 0x1.709bd2p-37f, 0x1.a8c2fap-34f, 0x1.476d1ap-35f,
                                 0x1.fd0decp-37f, 0x1.b36108p-38f, 0x1.9adce2p-39f, 0x1.6c4a8p-40f,  0x1.78ca94p-41f,
                                 0x1.5b8a6p-42f,  0x1.9b0b06p-39f, 0x1.0532acp-42f, 0x1.d5b6d4p-35f, 0x1.1de4bap-33f,
                                 0x1.c611d2p-35f, 0x1.d8f88ap-36f, 0x1.33f53cp-35f, 0x1.cdc97ep-35f, 0x1.96c738p-34f,
                                 0x1.890f2ep-35f, 0x1.330fb4p-36f, 0x1.d30ba4p-36f, 0x1.df23e6p-37f, 0x1.0a26fap-35f,
                                 0x1.35dc98p-36f, 0x1.162a22p-35f});

  const Vec x = value_of(given), size = absolute(x);
  const Mask usual = not_less(size, Vec::set1(0x1p-13f));  // tanh(x) = x elsewhere: s, as t is x
  const Vec z = smaller(Vec::set1(9.1f), size);            // 1 beyond
  const Vec index = vec_of(bits_of(z + Vec::set1(tanh_shift)) >> 20);
  const Vec t = z - centre[index];

  Vec p = fma(c6[index], t, c5[index]);
  p = fma(fma(p, t, c4[index]), t, c3[index]);
  const Vec a = c0[index], b = c1[index], c = c2[index], slope = fma(c, t, b), s = fma(slope, t, a);
  const Vec slope_rest = fma(mask_or_zero(usual, p * t), t, fma(c, t, b - slope));
  const Vec rest = fma(slope_rest, t, fma(slope, t, a - s));
  const Rounded y = between(s, rest, mask_or_zero(usual, fma(s, margin[index], rest)));
  return or_else<exactly<exact::tanh>>(given, with_sign(y.value, x), y.decided);
}

#elif defined(__AVX2__) && defined(__FMA__)

template <class V>
[[gnu::always_inline]] inline V tanh(V x) {
  return or_else<exactly<exact::tanh>>(x, pairs::tanh(value_of(x)));
}

#else

inline Vec tanh(Vec x) { return each_of<exact::tanh>(x); }

#endif

}  // namespace repdl::cpu
