// What the exact functions share: bit casts, the multiply-add, the magic number.
#pragma once

#include <cstdint>
#include <cstring>

#include "repdl/contract/arithmetic.hpp"
#include "repdl/host_device.hpp"

namespace repdl::exact {

REPDL_HD inline std::uint64_t to_bits(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

REPDL_HD inline double from_bits(std::uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

REPDL_HD inline float float_from_bits(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

REPDL_HD inline float quiet_nan() { return float_from_bits(0x7fc00000u); }

REPDL_HD inline float infinity() { return float_from_bits(0x7f800000u); }

// a * b + c for intermediate results: fused where the target does that in hardware, two
// roundings elsewhere. Either way the rounded float is the same: both are proven.
REPDL_HD inline double madd(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return __fma_rn(a, b, c);
#elif defined(__FP_FAST_FMA)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// 1.5 * 2**52: x + magic has the nearest integer to x in its low bits.
constexpr double magic = 0x1.8p+52;

}  // namespace repdl::exact
