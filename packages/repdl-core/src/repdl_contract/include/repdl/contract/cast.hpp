// Conversions between float, double, bfloat16 and float16, one rounding each (cast.md).
//
// Branchless, so that loops over them become vector loops. Halves are their bits. The
// arithmetic inside is exact or rounds to nearest even; NaN comes out as the one NaN.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "repdl/contract/arithmetic.hpp"

namespace repdl {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

template <class To, class From>
REPDL_HD To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Widening is exact.
REPDL_HD inline float to_float(float x) { return x; }
REPDL_HD inline float to_float(BFloat16 x) { return bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
REPDL_HD inline float to_float(Float16 x) {
  // The float with the same fields has an exponent that is 112 too small, also where it is
  // subnormal; the product is exact. Infinity and NaN get all the exponent bits of a float.
  const std::uint32_t magnitude = x.bits & 0x7fffu, sign = (x.bits & 0x8000u) << 16;
  const float scaled = mul(bit_cast<float>(magnitude << 13), 0x1p112f);
  const std::uint32_t top = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return bit_cast<float>(bit_cast<std::uint32_t>(scaled) | top | sign);
}

// x rounded to odd: towards zero, and the last bit set if that changed it. Rounding the
// result to a half is then the only rounding that counts (Boldo and Melquiond, IEEE TC
// 57(4), 2008): float has more than two bits more.
REPDL_HD inline float to_odd(double x) {
  const float nearest = static_cast<float>(x);
  const std::uint32_t away = std::fabs(static_cast<double>(nearest)) > std::fabs(x) ? 1u : 0u;
  const std::uint32_t bits = bit_cast<std::uint32_t>(nearest) - away;
  const std::uint32_t inexact = static_cast<double>(bit_cast<float>(bits)) != x ? 1u : 0u;
  return bit_cast<float>(bits | inexact);
}

REPDL_HD inline BFloat16 to_bfloat16(float x) {
  const std::uint32_t bits = bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (bits & 0x7fffffffu) > 0x7f800000u ? 1u : 0u;
  return {static_cast<std::uint16_t>(nan ? 0x7fc0u : rounded)};
}

REPDL_HD inline Float16 to_float16(float x) {
  const std::uint32_t bits = bit_cast<std::uint32_t>(x), sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Normal numbers: the exponent is 112 smaller, 13 bits are rounded off.
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2**-14 the last place is 2**-24, which is that of 0.5f: the addition rounds.
  const std::uint32_t small = bit_cast<std::uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  std::uint32_t result = magnitude < 0x38800000u ? small : normal;
  result = magnitude >= 0x47800000u ? 0x7c00u : result;  // 2**16; what rounds up to it carries into it
  result |= sign;
  return {static_cast<std::uint16_t>(magnitude > 0x7f800000u ? 0x7e00u : result)};
}

template <class From>
REPDL_HD void convert(const From x, float& y) {
  if constexpr (sizeof(From) == sizeof(double))
    y = canonical(static_cast<float>(x));
  else
    y = canonical(to_float(x));
}

template <class From>
REPDL_HD void convert(const From x, double& y) {
  if constexpr (sizeof(From) == sizeof(double))
    y = canonical(x);
  else
    y = canonical(static_cast<double>(to_float(x)));
}

template <class From>
REPDL_HD void convert(const From x, BFloat16& y) {
  if constexpr (sizeof(From) == sizeof(double))
    y = to_bfloat16(to_odd(x));
  else
    y = to_bfloat16(to_float(x));
}

template <class From>
REPDL_HD void convert(const From x, Float16& y) {
  if constexpr (sizeof(From) == sizeof(double))
    y = to_float16(to_odd(x));
  else
    y = to_float16(to_float(x));
}

// integers[i] becomes the lowest integer where values[i] is NaN or has no integer of this type: C++ leaves the
// conversion of these to the processor.
template <class T, class Integer>
void define_beyond_range(const T* values, Integer* integers, std::int64_t count) {
  constexpr Integer lowest = std::numeric_limits<Integer>::min();
  constexpr T limit = -static_cast<T>(lowest);
  for (std::int64_t i = 0; i < count; ++i) integers[i] = std::fabs(values[i]) < limit ? integers[i] : lowest;
}

}  // namespace repdl
