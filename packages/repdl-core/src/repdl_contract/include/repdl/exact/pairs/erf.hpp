// erf by pairs of floats (pairs.hpp).
//
//   |x| = a + r, a the nearest multiple of 1/8
//   erf(|x|) = c0 + r (c1 + r (c2 + ...)), a polynomial for each a; c0, c1 and c2 with corrections
#pragma once

#include "repdl/exact/pairs/pairs.hpp"

namespace repdl::exact::pairs {

// The margin is erf_margin times the result, of which only erf_bound counts: measured.
constexpr float erf_margin = 0x1.bcp-35f, erf_bound = 0x1p-4f;

template <class V>
REPDL_HD_INLINE Rounded<V> erf(V x) {
  static_assert(entries<V> == 32);
  // tools/exact/generate_vec.py
  static constexpr Table<V> c0(
      {0x0p+0f,        0x1.1f5e1ap-3f, 0x1.1af54ep-2f, 0x1.9dd0d2p-2f, 0x1.0a7ef6p-1f, 0x1.3f196ep-1f, 0x1.6c1c98p-1f,
       0x1.91724ap-1f, 0x1.af767ap-1f, 0x1.c6dad2p-1f, 0x1.d8865ep-1f, 0x1.e5768cp-1f, 0x1.eea556p-1f, 0x1.f4f694p-1f,
       0x1.f92d08p-1f, 0x1.fbe61ep-1f, 0x1.fd9ae2p-1f, 0x1.fea422p-1f, 0x1.ff4048p-1f, 0x1.ff996p-1f,  0x1.ffcaa8p-1f,
       0x1.ffe514p-1f, 0x1.fff2dp-1f,  0x1.fff9bap-1f, 0x1.fffd1ap-1f, 0x1.fffeb4p-1f, 0x1.ffff7p-1f,  0x1.ffffc4p-1f,
       0x1.ffffe8p-1f, 0x1.fffff6p-1f, 0x1.fffffcp-1f, 0x1.fffffep-1f});
  static constexpr Table<V> c0_low(
      {0x0p+0f,          0x1.ae1dc4p-30f,  0x1.196b04p-29f,  0x1.6e43e8p-27f,  -0x1.f38916p-28f, -0x1.978766p-28f,
       -0x1.4c5e34p-26f, -0x1.5c8e08p-26f, 0x1.d04222p-27f,  0x1.053d8cp-26f,  -0x1.9d508p-27f,  0x1.da51fep-28f,
       -0x1.1d90a4p-26f, -0x1.2610a2p-27f, -0x1.00e552p-26f, 0x1.de99eep-26f,  -0x1.7b0d44p-26f, -0x1.ca69aep-27f,
       -0x1.3f9ccap-26f, 0x1.e7d664p-26f,  0x1.e9937ep-26f,  0x1.77b832p-26f,  -0x1.3eeb0ap-27f, 0x1.083a0ep-27f,
       0x1.8826cp-26f,   -0x1.44d984p-29f, -0x1.82606ap-27f, -0x1.d24c26p-26f, -0x1.de5534p-26f, 0x1.8c3da6p-29f,
       0x1.78b8f2p-28f,  0x1.259db2p-26f});
  static constexpr Table<V> c1({0x1.20dd76p+0f,  0x1.1c62fap+0f,  0x1.0f5d16p+0f,  0x1.f5f0cep-1f,  0x1.c1efcap-1f,
                                0x1.86e96ap-1f,  0x1.492e42p-1f,  0x1.0cab62p-1f,  0x1.a911fp-2f,   0x1.45e99cp-2f,
                                0x1.e4653p-3f,   0x1.5ce596p-3f,  0x1.e72372p-4f,  0x1.499d48p-4f,  0x1.b0553p-5f,
                                0x1.12ceb4p-5f,  0x1.529b9ep-6f,  0x1.94624ep-7f,  0x1.d4143ap-8f,  0x1.06918cp-8f,
                                0x1.1d8318p-9f,  0x1.2ce898p-10f, 0x1.3360ccp-11f, 0x1.30539p-12f,  0x1.2408eap-13f,
                                0x1.0f9e1cp-14f, 0x1.e9b5e8p-16f, 0x1.abe09ep-17f, 0x1.6a5972p-18f, 0x1.296a7p-19f,
                                0x1.d9371ep-21f, 0x1.6ce1aap-22f});
  static constexpr Table<V> c1_low(
      {-0x1.f7b1e4p-25f, 0x1.e7c46p-28f,   0x1.78f574p-31f, -0x1.43ad98p-27f, 0x1.26bba6p-27f,  -0x1.7d7548p-26f,
       0x1.af3eb8p-26f,  -0x1.ed8aap-30f,  0x1.2e1a36p-27f, -0x1.a22872p-29f, -0x1.491232p-29f, -0x1.de3966p-30f,
       0x1.ad0e5cp-30f,  -0x1.d1a59p-30f,  0x1.8ef8cp-32f,  -0x1.004254p-30f, 0x1.1a00fap-31f,  0x1.e4d5d6p-33f,
       0x1.3dae36p-33f,  -0x1.37c862p-33f, -0x1.de331p-34f, 0x1.03f64cp-35f,  0x1.a720c8p-36f,  -0x1.0fab74p-38f,
       -0x1.1b30acp-39f, -0x1.6bc9aep-39f, 0x1.81a6a2p-41f, 0x1.e0d7a6p-43f,  -0x1.5170d4p-47f, 0x1.88ff7p-44f,
       -0x1.0f635ap-47f, -0x1.1072bap-48f});
  static constexpr Table<V> c2(
      {0x0p+0f,          -0x1.1c62fap-3f,  -0x1.0f5d16p-2f,  -0x1.78749ap-2f,  -0x1.c1efcap-2f,  -0x1.e8a3c4p-2f,
       -0x1.edc564p-2f,  -0x1.d62becp-2f,  -0x1.a911fp-2f,   -0x1.6ea6dp-2f,   -0x1.2ebf3ep-2f,  -0x1.dfbbaep-3f,
       -0x1.6d5a96p-3f,  -0x1.0bcfcap-3f,  -0x1.7a4a8ap-4f,  -0x1.01a1c8p-4f,  -0x1.529b9ep-5f,  -0x1.ada874p-6f,
       -0x1.074b6p-6f,   -0x1.37ccd6p-7f,  -0x1.64e3dcp-8f,  -0x1.8af148p-9f,  -0x1.a6a51ap-10f, -0x1.b5781ep-11f,
       -0x1.b60d5ep-12f, -0x1.a8670ap-13f, -0x1.8de3cep-14f, -0x1.690586p-15f, -0x1.3d0e44p-16f, -0x1.0d8876p-17f,
       -0x1.bba3acp-19f, -0x1.617a9cp-20f});
  static constexpr Table<V> c2_low(
      {0x0p+0f,          -0x1.e7246cp-31f, -0x1.73733ap-33f, -0x1.0cf5e6p-28f, -0x1.265a6ap-28f, 0x1.ba1364p-28f,
       -0x1.0d55c2p-28f, 0x1.361f0ap-27f,  -0x1.2e0dfep-27f, 0x1.758dcep-27f,  0x1.9acc8ap-29f,  0x1.204318p-31f,
       0x1.7aff8ep-30f,  -0x1.0c6fe4p-30f, -0x1.5e652cp-31f, -0x1.1faf2ap-30f, -0x1.19cc8ap-30f, 0x1.3f4648p-31f,
       -0x1.f1baccp-31f, 0x1.e7eac2p-33f,  -0x1.a7baf8p-33f, -0x1.48b78ap-36f, 0x1.79a5fcp-36f,  -0x1.3c348cp-36f,
       -0x1.2fc238p-37f, -0x1.53ca8ep-38f, 0x1.ae95ccp-39f,  0x1.b635fap-42f,  0x1.62328ap-43f,  -0x1.633ffcp-43f,
       -0x1.02af34p-45f, -0x1.bc680cp-45f});
  static constexpr Table<V> c3({-0x1.812746p-2f, -0x1.6f552ep-2f, -0x1.3c9744p-2f, -0x1.e106c6p-3f, -0x1.2bf532p-3f,
                                -0x1.c81054p-5f, 0x1.b6e852p-6f,  0x1.7c9d74p-4f,  0x1.1b614ap-3f,  0x1.4cb3cep-3f,
                                0x1.571d02p-3f,  0x1.4374d8p-3f,  0x1.1c2a04p-3f,  0x1.d6631ep-4f,  0x1.7148c4p-4f,
                                0x1.143d1cp-4f,  0x1.8b0ae4p-5f,  0x1.0ea476p-5f,  0x1.63ef62p-6f,  0x1.c1ec0ep-7f,
                                0x1.119dap-7f,   0x1.407fbcp-8f,  0x1.69cf46p-9f,  0x1.89e17cp-10f, 0x1.9db74cp-11f,
                                0x1.a37382p-12f, 0x1.9aa49p-13f,  0x1.84523ap-14f, 0x1.62ccfap-15f, 0x1.394b34p-16f,
                                0x1.0b6a94p-17f, 0x1.b95fdap-19f});
  static constexpr Table<V> c4({0x0p+0f,          0x1.196c9cp-4f,  0x1.040e8ap-3f,   0x1.5529acp-3f,   0x1.76f27ep-3f,
                                0x1.6963c8p-3f,   0x1.349b5ep-3f,  0x1.cc6056p-4f,   0x1.1b614cp-4f,   0x1.ca5086p-6f,
                                -0x1.93a9a2p-8f,  -0x1.f3b8d4p-6f, -0x1.6d5a96p-5f,  -0x1.974c04p-5f,  -0x1.8a0da6p-5f,
                                -0x1.5a3166p-5f,  -0x1.1a2c5ap-5f, -0x1.afe554p-6f,  -0x1.38a984p-6f,  -0x1.ae5962p-7f,
                                -0x1.1a89bap-7f,  -0x1.62d4c6p-8f, -0x1.ab0c26p-9f,  -0x1.ed4ac6p-10f, -0x1.11c85ap-10f,
                                -0x1.24544ep-11f, -0x1.2c7d6p-12f, -0x1.298f8ep-13f, -0x1.1c0774p-14f, -0x1.05760ep-15f,
                                -0x1.d06f62p-17f, -0x1.8e1fd2p-18f});
  static constexpr Table<V> c5({0x1.ce2d78p-4f,  0x1.aab872p-4f,  0x1.47e4b2p-4f,  0x1.74889cp-5f,  0x1.dffd96p-8f,
                                -0x1.c11dfp-6f,  -0x1.b426bp-5f,  -0x1.134f8ep-4f, -0x1.1b607ap-4f, -0x1.f65cc6p-5f,
                                -0x1.82828ep-5f, -0x1.f5757ap-6f, -0x1.e72954p-7f, -0x1.17e7a4p-9f, 0x1.b21c2ap-8f,
                                0x1.7799dcp-7f,  0x1.ace76ap-7f,  0x1.9974b2p-7f,  0x1.5d3c5cp-7f,  0x1.11dc0ep-7f,
                                0x1.90e9cep-8f,  0x1.146d5ap-8f,  0x1.693694p-9f,  0x1.c11f9cp-10f, 0x1.0a7af6p-10f,
                                0x1.2e7d1p-11f,  0x1.490772p-12f, 0x1.5770c4p-13f, 0x1.5864e6p-14f, 0x1.4c16fap-15f,
                                0x1.342be2p-16f, 0x1.136516p-17f});
  static constexpr Table<V> c6(
      {0x0p+0f,          -0x1.734cbep-6f,  -0x1.4c098ep-5f,  -0x1.9a778cp-5f,  -0x1.99efe2p-5f,  -0x1.52b1c4p-5f,
       -0x1.b847cap-6f,  -0x1.53be6p-7f,   0x1.2e3d36p-8f,   0x1.fd1874p-7f,   0x1.5cfea6p-6f,   0x1.6b1666p-6f,
       0x1.3ca4p-6f,     0x1.d8592cp-7f,   0x1.25b4fep-7f,   0x1.0d0c4cp-8f,   0x1.e1b06ap-12f,  -0x1.dd7586p-10f,
       -0x1.7cade2p-9f,  -0x1.982be6p-9f,  -0x1.6eced4p-9f,  -0x1.26804p-9f,   -0x1.b276e2p-10f, -0x1.2ade0ap-10f,
       -0x1.82f314p-11f, -0x1.da49dep-12f, -0x1.145424p-12f, -0x1.3309a8p-13f, -0x1.461334p-14f, -0x1.4b94d6p-15f,
       -0x1.435318p-16f, -0x1.2eacb4p-17f});
  static constexpr Table<V> c7({-0x1.b58292p-6f, -0x1.868ef8p-6f,  -0x1.075a66p-6f,  -0x1.657648p-8f,  0x1.5d44d8p-8f,
                                0x1.c3a2c2p-7f,  0x1.2bc3fcp-6f,   0x1.2ecd3cp-6f,   0x1.ee6b9ep-7f,   0x1.3a6108p-7f,
                                0x1.df462ap-9f,  -0x1.65879cp-10f, -0x1.32ea4p-8f,   -0x1.920c6p-8f,   -0x1.8b01a8p-8f,
                                -0x1.42260cp-8f, -0x1.bb18eep-9f,  -0x1.ecaa2cp-10f, -0x1.664ad6p-11f, 0x1.d35e86p-14f,
                                0x1.17c4a2p-11f, 0x1.62276p-11f,   0x1.516454p-11f,  0x1.14d1aep-11f,  0x1.9a0c22p-12f,
                                0x1.185bbcp-12f, 0x1.666748p-13f,  0x1.afbbbep-14f,  0x1.ecae3p-15f,   0x1.0b549ep-15f,
                                0x1.14ab0cp-16f, 0x1.11a9bep-17f});
  static constexpr Table<V> c8(
      {0x0p+0f,          0x1.6cdc46p-8f,   0x1.3b9648p-7f,   0x1.6e4c4p-7f,    0x1.476fc6p-7f,   0x1.b47ea4p-8f,
       0x1.2e8bbap-9f,   -0x1.dbb872p-10f, -0x1.3640bep-8f,  -0x1.889d7ep-8f,  -0x1.7393ep-8f,   -0x1.168106p-8f,
       -0x1.3619c6p-9f,  -0x1.34c9f2p-11f, 0x1.76a03ep-11f,  0x1.7368d8p-10f,  0x1.9ea878p-10f,  0x1.698046p-10f,
       0x1.05e696p-10f,  0x1.387c1cp-11f,  0x1.1439aap-12f,  0x1.386296p-15f,  -0x1.6d3c58p-14f, -0x1.19ececp-13f,
       -0x1.197dccp-13f, -0x1.d217cap-14f, -0x1.56cab4p-14f, -0x1.cd6f24p-15f, -0x1.20c09ep-15f, -0x1.533b72p-16f,
       -0x1.78798ep-17f, -0x1.8c6db6p-18f});
  constexpr float magic = 0x1.8p+20f, last = 3.875f;

  const auto usual = not_tiny(x);
  const V z = smaller(V::set1(3.925f), mask_or_zero(usual, absolute(x)));  // 1 from there on
  const V shifted = smaller(V::set1(magic + last), z + V::set1(magic));
  const V r = z - (shifted - V::set1(magic));  // exact

  // Three steps of Horner's rule with what rounding takes from them, which the other terms join:
  // t + t_rest = c2 + c3 r,  slope + slope_rest = c1 + t r,  s + s_rest = c0 + slope r.
  const V b0 = c0[shifted], b1 = c1[shifted], b2 = c2[shifted], b3 = c3[shifted];
  const V t = fma(b3, r, b2), t_rest = fma(b3, r, b2 - t);
  const V slope = fma(t, r, b1), slope_rest = fma(t, r, b1 - slope);
  const V s = fma(slope, r, b0), s_rest = fma(slope, r, b0 - s);

  const V r2 = r * r;
  V q = fma(c8[shifted], r2, fma(c7[shifted], r, c6[shifted]));
  q = fma(q, r2, fma(c5[shifted], r, c4[shifted]));
  q = fma(q, r2, t_rest + c2_low[shifted]);
  q = fma(q, r, slope_rest + c1_low[shifted]);
  const V rest = fma(q, r, s_rest + c0_low[shifted]);

  const V margin = smaller(V::set1(erf_bound), s) * V::set1(erf_margin);
  const Rounded<V> y = rounded(DoubleFloat<V>{s, rest}, margin);
  // Of the tiny arguments only zeros are decided.
  return {with_sign(y.value, x), y.decided & (usual | (x == V::zero()))};
}

}  // namespace repdl::exact::pairs
