// Constants of BigFloats, truncated: tools/exact/generate_big.py writes them.
#pragma once

#include "repdl/exact/big/big_float.hpp"

namespace repdl::exact::big {

constexpr int constant_limbs = 12;

// The leading limbs of a constant, the lowest first.
template <int N>
REPDL_HD inline BigFloat<N> leading(const std::uint32_t (&limb)[constant_limbs], int exponent) {
  static_assert(N <= constant_limbs);
  BigFloat<N> x;
  for (int i = 0; i < N; ++i) x.limb[i] = limb[constant_limbs - N + i];
  x.exponent = exponent;
  return x;
}

template <int N>
REPDL_HD inline BigFloat<N> ln_2() {  // ln 2
  constexpr std::uint32_t limb[constant_limbs] = {
      0x4afa1b10u, 0x559552fbu, 0x6debac98u, 0xe7b87620u, 0x8baafa2bu, 0x8a0d175bu,
      0x7298b62du, 0x40f34326u, 0x03f2f6afu, 0xc9e3b398u, 0xd1cf79abu, 0xb17217f7u,
  };
  return leading<N>(limb, 0);
}

template <int N>
REPDL_HD inline BigFloat<N> ln_10() {  // ln 10
  constexpr std::uint32_t limb[constant_limbs] = {
      0x2c5f0d68u, 0xcc70cbc0u, 0xb1a8105cu, 0x962f02d7u, 0x01f02d72u, 0x83c61e82u,
      0xda5df90eu, 0xe28fecf9u, 0x82d30a28u, 0xea56d62bu, 0xaaa8ac16u, 0x935d8dddu,
  };
  return leading<N>(limb, 2);
}

template <int N>
REPDL_HD inline BigFloat<N> half_pi() {  // pi / 2
  constexpr std::uint32_t limb[constant_limbs] = {
      0xcd3a431bu, 0xef9519b3u, 0x8e3404ddu, 0x514a0879u, 0x3b139b22u, 0x020bbea6u,
      0x8a67cc74u, 0x29024e08u, 0x80dc1cd1u, 0xc4c6628bu, 0x2168c234u, 0xc90fdaa2u,
  };
  return leading<N>(limb, 1);
}

template <int N>
REPDL_HD inline BigFloat<N> two_over_root_pi() {  // 2 / sqrt(pi)
  constexpr std::uint32_t limb[constant_limbs] = {
      0x6cc79aebu, 0x40c03609u, 0x59270f11u, 0xc0759cf8u, 0xcce620b0u, 0x39a15830u,
      0xac3e7517u, 0x1409a0ebu, 0x6bfec344u, 0x71d48a7fu, 0x14db688du, 0x906eba82u,
  };
  return leading<N>(limb, 1);
}

// The bits of 2 / pi behind the point, the highest first: what 8 limbs of the largest double need.
REPDL_HD inline std::uint32_t two_over_pi(int word) {
  constexpr std::uint32_t words[42] = {
      0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu,
      0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu,
      0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu,
      0xbdf9283bu, 0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u,
      0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u,
      0x1f8d5d08u, 0x56033046u, 0xfc7b6babu, 0xf0cfbc20u, 0x9af4361du, 0xa9e39161u, 0x5ee61b08u,
  };
  return word < 0 || word >= 42 ? 0u : words[word];
}

}  // namespace repdl::exact::big
