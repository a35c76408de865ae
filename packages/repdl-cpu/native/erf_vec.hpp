// erf of a whole Vec: the bits of repdl/exact/erf.hpp, most of the time without doubles.
//
//   |x| = a + r, a the nearest multiple of 1/8 (1/4 with tables of 16 entries)
//   erf(|x|) = c0 + r (c1 + r (c2 + ...)), the Taylor series at a; c0 and c1 with corrections
//
// simd_mask.hpp says how results are decided.
#pragma once

#include "repdl/exact/erf.hpp"
#include "simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

[[gnu::always_inline]] inline Vec erf(Vec x) {
  // tools/exact/generate_vec.py
  alignas(64) static constexpr float c0[32] = {
      0x0p+0f, 0x1.1f5e1ap-3f, 0x1.1af54ep-2f, 0x1.9dd0d2p-2f, 0x1.0a7ef6p-1f,
      0x1.3f196ep-1f, 0x1.6c1c98p-1f, 0x1.91724ap-1f, 0x1.af767ap-1f, 0x1.c6dad2p-1f,
      0x1.d8865ep-1f, 0x1.e5768cp-1f, 0x1.eea556p-1f, 0x1.f4f694p-1f, 0x1.f92d08p-1f,
      0x1.fbe61ep-1f, 0x1.fd9ae2p-1f, 0x1.fea422p-1f, 0x1.ff4048p-1f, 0x1.ff996p-1f,
      0x1.ffcaa8p-1f, 0x1.ffe514p-1f, 0x1.fff2dp-1f, 0x1.fff9bap-1f, 0x1.fffd1ap-1f,
      0x1.fffeb4p-1f, 0x1.ffff7p-1f, 0x1.ffffc4p-1f, 0x1.ffffe8p-1f, 0x1.fffff6p-1f,
      0x1.fffffcp-1f, 0x1.fffffep-1f};
  alignas(64) static constexpr float c0_low[32] = {
      0x0p+0f, 0x1.ae1dc4p-30f, 0x1.196b04p-29f, 0x1.6e43e8p-27f, -0x1.f38916p-28f,
      -0x1.978766p-28f, -0x1.4c5e34p-26f, -0x1.5c8e08p-26f, 0x1.d04222p-27f, 0x1.053d8cp-26f,
      -0x1.9d508p-27f, 0x1.da51fep-28f, -0x1.1d90a4p-26f, -0x1.2610a2p-27f, -0x1.00e552p-26f,
      0x1.de99eep-26f, -0x1.7b0d44p-26f, -0x1.ca69aep-27f, -0x1.3f9ccap-26f, 0x1.e7d664p-26f,
      0x1.e9937ep-26f, 0x1.77b832p-26f, -0x1.3eeb0ap-27f, 0x1.083a0ep-27f, 0x1.8826cp-26f,
      -0x1.44d984p-29f, -0x1.82606ap-27f, -0x1.d24c26p-26f, -0x1.de5534p-26f, 0x1.8c3da6p-29f,
      0x1.78b8f2p-28f, 0x1.259db2p-26f};
  alignas(64) static constexpr float c1[32] = {
      0x1.20dd76p+0f, 0x1.1c62fap+0f, 0x1.0f5d16p+0f, 0x1.f5f0cep-1f, 0x1.c1efcap-1f,
      0x1.86e96ap-1f, 0x1.492e42p-1f, 0x1.0cab62p-1f, 0x1.a911fp-2f, 0x1.45e99cp-2f,
      0x1.e4653p-3f, 0x1.5ce596p-3f, 0x1.e72372p-4f, 0x1.499d48p-4f, 0x1.b0553p-5f,
      0x1.12ceb4p-5f, 0x1.529b9ep-6f, 0x1.94624ep-7f, 0x1.d4143ap-8f, 0x1.06918cp-8f,
      0x1.1d8318p-9f, 0x1.2ce898p-10f, 0x1.3360ccp-11f, 0x1.30539p-12f, 0x1.2408eap-13f,
      0x1.0f9e1cp-14f, 0x1.e9b5e8p-16f, 0x1.abe09ep-17f, 0x1.6a5972p-18f, 0x1.296a7p-19f,
      0x1.d9371ep-21f, 0x1.6ce1aap-22f};
  alignas(64) static constexpr float c1_low[32] = {
      -0x1.f7ac92p-25f, 0x1.e869b6p-28f, 0x1.7bf206p-31f, -0x1.43ab3cp-27f, 0x1.269404p-27f,
      -0x1.7d968cp-26f, 0x1.af1a58p-26f, -0x1.ef68dap-30f, 0x1.2df784p-27f, -0x1.a24376p-29f,
      -0x1.48d254p-29f, -0x1.dd527ap-30f, 0x1.ae092ap-30f, -0x1.d0d632p-30f, 0x1.91080ap-32f,
      -0x1.000c88p-30f, 0x1.19f344p-31f, 0x1.e383ecp-33f, 0x1.3bfd2cp-33f, -0x1.39553cp-33f,
      -0x1.e0812p-34f, 0x1.01248ap-35f, 0x1.a47b68p-36f, -0x1.12204cp-38f, -0x1.17336p-39f,
      -0x1.645924p-39f, 0x1.a019cep-41f, 0x1.22896cp-42f, 0x1.9a93dap-46f, 0x1.e8280ap-44f,
      0x1.7fbe1ap-48f, 0x1.febdeep-49f};
  alignas(64) static constexpr float c2[32] = {
      0x0p+0f, -0x1.1c62fap-3f, -0x1.0f5d16p-2f, -0x1.78749ap-2f, -0x1.c1efcap-2f,
      -0x1.e8a3c4p-2f, -0x1.edc564p-2f, -0x1.d62becp-2f, -0x1.a911fp-2f, -0x1.6ea6dp-2f,
      -0x1.2ebf3ep-2f, -0x1.dfbbaep-3f, -0x1.6d5a96p-3f, -0x1.0bcfcap-3f, -0x1.7a4a8ap-4f,
      -0x1.01a1c8p-4f, -0x1.529b9ep-5f, -0x1.ada874p-6f, -0x1.074b6p-6f, -0x1.37ccd6p-7f,
      -0x1.64e3dcp-8f, -0x1.8af148p-9f, -0x1.a6a51ap-10f, -0x1.b5781ep-11f, -0x1.b60d5ep-12f,
      -0x1.a8670ap-13f, -0x1.8de3cep-14f, -0x1.690586p-15f, -0x1.3d0e44p-16f, -0x1.0d8876p-17f,
      -0x1.bba3acp-19f, -0x1.617a9cp-20f};
  alignas(64) static constexpr float c2_low[32] = {
      0x0p+0f, -0x1.e869b6p-31f, -0x1.7bf206p-33f, -0x1.0d3f94p-28f, -0x1.269404p-28f,
      0x1.b9f85ep-28f, -0x1.0d4f0ap-28f, 0x1.362f78p-27f, -0x1.2df784p-27f, 0x1.75a2f8p-27f,
      0x1.9b06e8p-29f, 0x1.20a2d2p-31f, 0x1.7af24p-30f, -0x1.0ca3eep-30f, -0x1.5ee70ap-31f,
      -0x1.1fe882p-30f, -0x1.19f344p-30f, 0x1.3f21eap-31f, -0x1.f1be6ap-31f, 0x1.e82a6ep-33f,
      -0x1.a75e98p-33f, -0x1.45ffd4p-36f, 0x1.7baca4p-36f, -0x1.3af8c8p-36f, -0x1.2e9978p-37f,
      -0x1.5334b8p-38f, 0x1.adeb08p-39f, 0x1.ab7034p-42f, 0x1.4c5f5p-43f, -0x1.74c892p-43f,
      -0x1.33e11cp-45f, -0x1.dbb2p-45f};
  alignas(64) static constexpr float c3[32] = {
      -0x1.812746p-2f, -0x1.6f552ep-2f, -0x1.3c9744p-2f, -0x1.e106c6p-3f, -0x1.2bf532p-3f,
      -0x1.c8105p-5f, 0x1.b6e85ap-6f, 0x1.7c9d76p-4f, 0x1.1b614cp-3f, 0x1.4cb3dp-3f,
      0x1.571d02p-3f, 0x1.4374d8p-3f, 0x1.1c2a02p-3f, 0x1.d6631ep-4f, 0x1.7148c4p-4f,
      0x1.143d1cp-4f, 0x1.8b0ae4p-5f, 0x1.0ea476p-5f, 0x1.63ef62p-6f, 0x1.c1ec1p-7f,
      0x1.119dap-7f, 0x1.407fbep-8f, 0x1.69cf46p-9f, 0x1.89e17cp-10f, 0x1.9db74cp-11f,
      0x1.a3737ep-12f, 0x1.9aa48ap-13f, 0x1.84523p-14f, 0x1.62cceap-15f, 0x1.394b2p-16f,
      0x1.0b6a7cp-17f, 0x1.b95fa4p-19f};
  alignas(64) static constexpr float c4[32] = {
      0x0p+0f, 0x1.196c9cp-4f, 0x1.040e8ap-3f, 0x1.5529acp-3f, 0x1.76f27ep-3f,
      0x1.6963c8p-3f, 0x1.349b5ep-3f, 0x1.cc6056p-4f, 0x1.1b614cp-4f, 0x1.ca5084p-6f,
      -0x1.93a9a8p-8f, -0x1.f3b8d6p-6f, -0x1.6d5a96p-5f, -0x1.974c04p-5f, -0x1.8a0da6p-5f,
      -0x1.5a3166p-5f, -0x1.1a2c5ap-5f, -0x1.afe554p-6f, -0x1.38a984p-6f, -0x1.ae5962p-7f,
      -0x1.1a89bap-7f, -0x1.62d4c6p-8f, -0x1.ab0c28p-9f, -0x1.ed4ac8p-10f, -0x1.11c85cp-10f,
      -0x1.24545p-11f, -0x1.2c7d5ep-12f, -0x1.298f8ep-13f, -0x1.1c0772p-14f, -0x1.05760ap-15f,
      -0x1.d06f58p-17f, -0x1.8e1fc4p-18f};
  alignas(64) static constexpr float c5[32] = {
      0x1.ce2f22p-4f, 0x1.aaba62p-4f, 0x1.47e5dp-4f, 0x1.7488b8p-5f, 0x1.dfeeb6p-8f,
      -0x1.c1242ep-6f, -0x1.b42a18p-5f, -0x1.1350f4p-4f, -0x1.1b614cp-4f, -0x1.f65d16p-5f,
      -0x1.8281cep-5f, -0x1.f572c4p-6f, -0x1.e72372p-7f, -0x1.17d43p-9f, 0x1.b22258p-8f,
      0x1.779b1ep-7f, 0x1.ace74p-7f, 0x1.9973b4p-7f, 0x1.5d3b18p-7f, 0x1.11dae4p-7f,
      0x1.90e812p-8f, 0x1.146c4cp-8f, 0x1.693596p-9f, 0x1.c11f28p-10f, 0x1.0a7b56p-10f,
      0x1.2e7e76p-11f, 0x1.490a4ep-12f, 0x1.577578p-13f, 0x1.586bbp-14f, 0x1.4c1fe4p-15f,
      0x1.3436bcp-16f, 0x1.137172p-17f};
  alignas(64) static constexpr float c6[32] = {
      0x0p+0f, -0x1.734ea6p-6f, -0x1.4c0b26p-5f, -0x1.9a7946p-5f, -0x1.99f13cp-5f,
      -0x1.52b266p-5f, -0x1.b8477ap-6f, -0x1.53bb4ap-7f, 0x1.2e45a6p-8f, 0x1.fd1c6cp-7f,
      0x1.5d0004p-6f, 0x1.6b16f6p-6f, 0x1.3ca3d8p-6f, 0x1.d857f2p-7f, 0x1.25b378p-7f,
      0x1.0d099cp-8f, 0x1.e1935ep-12f, -0x1.dd78eep-10f, -0x1.7cae0ep-9f, -0x1.982b28p-9f,
      -0x1.6ecdcp-9f, -0x1.267f3cp-9f, -0x1.b2755cp-10f, -0x1.2add1cp-10f, -0x1.82f236p-11f,
      -0x1.da496ep-12f, -0x1.145464p-12f, -0x1.330aacp-13f, -0x1.46154p-14f, -0x1.4b982p-15f,
      -0x1.4357b6p-16f, -0x1.2eb29p-17f};
  alignas(64) static constexpr float c7[32] = {
      -0x1.b82ce4p-6f, -0x1.89258ep-6f, -0x1.08d946p-6f, -0x1.65c10cp-8f, 0x1.623c62p-8f,
      0x1.c7cd9cp-7f, 0x1.2e0afcp-6f, 0x1.30ac22p-6f, 0x1.f096fep-7f, 0x1.3acc78p-7f,
      0x1.db43cap-9f, -0x1.73ffaap-10f, -0x1.36d73ap-8f, -0x1.954abp-8f, -0x1.8d10fcp-8f,
      -0x1.42fcbap-8f, -0x1.bae0acp-9f, -0x1.ea03bcp-10f, -0x1.5f8314p-11f, 0x1.0283ep-13f,
      0x1.1c610cp-11f, 0x1.64f892p-11f, 0x1.52b626p-11f, 0x1.151f78p-11f, 0x1.998b48p-12f,
      0x1.176cf6p-12f, 0x1.647f72p-13f, 0x1.ac9998p-14f, 0x1.e827fap-15f, 0x1.085c1p-15f,
      0x1.110de4p-16f, 0x1.0d8c36p-17f};
  alignas(64) static constexpr float c8[32] = {
      0x0p+0f, 0x1.6f681cp-8f, 0x1.3db7p-7f, 0x1.709ab6p-7f, 0x1.493d48p-7f,
      0x1.b62f4ap-8f, 0x1.2db332p-9f, -0x1.e3f4d2p-10f, -0x1.391146p-8f, -0x1.8b43c4p-8f,
      -0x1.75672cp-8f, -0x1.174048p-8f, -0x1.35ae4ep-9f, -0x1.2e43eep-11f, 0x1.7ec1d2p-11f,
      0x1.76ff58p-10f, 0x1.a11434p-10f, 0x1.6aa2cp-10f, 0x1.0602e4p-10f, 0x1.377c46p-11f,
      0x1.11551ep-12f, 0x1.229efp-15f, -0x1.755772p-14f, -0x1.1c64p-13f, -0x1.1aa5e2p-13f,
      -0x1.d2ac6cp-14f, -0x1.56747ap-14f, -0x1.cc1578p-15f, -0x1.1f6304p-15f, -0x1.510a3cp-16f,
      -0x1.7566bep-17f, -0x1.88856ap-18f};
  alignas(64) static constexpr float c9[32] = {
      0x1.565bcep-8f, 0x1.279336p-8f, 0x1.556236p-9f, 0x1.0422b6p-13f, -0x1.1c1646p-9f,
      -0x1.dc3b46p-9f, -0x1.04105cp-8f, -0x1.aae22ep-9f, -0x1.ee30dap-10f, -0x1.79b04ep-12f,
      0x1.cc2256p-11f, 0x1.9da3d4p-10f, 0x1.c0380cp-10f, 0x1.71cd78p-10f, 0x1.d4cf0ap-11f,
      0x1.7bda7ap-12f, -0x1.a46c56p-15f, -0x1.2fdb3p-12f, -0x1.8352cep-12f, -0x1.61ec7p-12f,
      -0x1.067178p-12f, -0x1.4006bcp-13f, -0x1.2abb3cp-14f, -0x1.0ec4b8p-16f, 0x1.d2a33cp-17f,
      0x1.aafdbep-16f, 0x1.b2c32p-16f, 0x1.64c53p-16f, 0x1.013526p-16f, 0x1.516554p-17f,
      0x1.99f5c6p-18f, 0x1.d25c46p-19f};
  constexpr bool narrow = table_entries == 16;
  constexpr float magic = narrow ? 0x1.8p+21f : 0x1.8p+20f, last = narrow ? 3.75f : 3.875f;

  const Vec z = smaller(Vec::set1(3.925f), absolute(x));  // 1 from there on
  const Vec shifted = smaller(z + Vec::set1(magic), Vec::set1(magic + last));
  const Vec r = z - (shifted - Vec::set1(magic));  // exact

  // slope + slope_rest = c1 + c2 r; s + rest = c0 + r (slope + ...)
  const Vec b1 = Table(c1)[shifted], b2 = Table(c2)[shifted], base = Table(c0)[shifted];
  const Vec slope = fma(b2, r, b1), slope_rest = fma(b2, r, b1 - slope);
  const Vec s = fma(slope, r, base), s_rest = fma(slope, r, base - s);

  Vec q = Table(c8)[shifted];
  if constexpr (narrow) q = fma(Table(c9)[shifted], r, q);
  q = fma(q, r, Table(c7)[shifted]);
  q = fma(q, r, Table(c6)[shifted]);
  q = fma(q, r, Table(c5)[shifted]);
  q = fma(q, r, Table(c4)[shifted]);
  q = fma(q, r, Table(c3)[shifted]);
  q = fma(q, r, Table(c2_low)[shifted]);
  q = fma(q, r, slope_rest + Table(c1_low)[shifted]);
  const Vec rest = fma(q, r, s_rest + Table(c0_low)[shifted]);

  // Measured; and near 0 the rest underflows.
  const Vec bound = smaller(s, Vec::set1(narrow ? 0x1p-3f : 0x1p-4f));
  const Vec tiny = smaller(z, Vec::set1(0x1p-130f));
  const Vec margin = fma(bound, Vec::set1(narrow ? 0x1.4p-30f : 0x1.1p-32f), tiny);
  const Rounded y = rounded({s, rest}, margin);
  return or_else<exactly<exact::erf>>(x, with_sign(y.value, x), y.decided);
}

#else

inline Vec erf(Vec x) { return each_of<exact::erf>(x); }

#endif

}  // namespace repdl::cpu
