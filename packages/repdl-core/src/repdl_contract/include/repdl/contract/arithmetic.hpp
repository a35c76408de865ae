// The scalar arithmetic of the contract: fused multiply-add and the one NaN.
#pragma once

#include <cstdint>
#include <cstring>

#include "repdl/host_device.hpp"

namespace repdl {

// a + b rounded once, to float: the double sum is rounded to odd, and the rounding to float is
// then the only one that counts (Boldo and Melquiond, IEEE TC 57(4), 2008).
REPDL_HD inline float rounded_sum(double a, double b) {
  double s = a + b;
  const double t = s - a;
  const double error = (a - (s - t)) + (b - t);
  std::int64_t bits;
  std::memcpy(&bits, &s, sizeof bits);
  const bool finite = ((bits >> 52) & 0x7ff) != 0x7ff;
  if (finite && error != 0 && (bits & 1) == 0) {
    bits += (error > 0) == (s > 0) ? 1 : -1;
    std::memcpy(&s, &bits, sizeof bits);
  }
  return static_cast<float>(s);
}

// a * b + c rounded once. Where the target has no such instruction, the product is exact in double.
REPDL_HD inline float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#elif defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__aarch64__)  // not all clangs define the first
  return __builtin_fmaf(a, b, c);
#else
  return rounded_sum(static_cast<double>(a) * b, c);
#endif
}

// The same in double; without the instruction the C library's. That rounds once too, but musl's has the wrong sign of
// zero where c is zero and the product underflows. A product to which zero is added needs no library.
REPDL_HD inline double fma(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return __fma_rn(a, b, c);
#elif defined(__FP_FAST_FMA) || defined(__FMA__) || defined(__aarch64__)
  return __builtin_fma(a, b, c);
#else
  return c == 0 && a != 0 && b != 0 ? a * b : __builtin_fma(a, b, c);
#endif
}

// a * b rounded once, whatever is done with it: no compiler may fuse it into an addition.
// Kernels for GPUs write every product so, or as a fused multiply-add.
REPDL_HD inline float mul(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;  // -ffp-contract=off
#endif
}
REPDL_HD inline double mul(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

// x, or 0x7fc00000 for any NaN.
REPDL_HD inline float canonical(float x) {
  constexpr std::uint32_t quiet = 0x7fc00000u;
  float nan;
  std::memcpy(&nan, &quiet, sizeof nan);
  return x == x ? x : nan;
}

// x, or 0x7ff8000000000000 for any NaN.
REPDL_HD inline double canonical(double x) {
  constexpr std::uint64_t quiet = 0x7ff8000000000000u;
  double nan;
  std::memcpy(&nan, &quiet, sizeof nan);
  return x == x ? x : nan;
}

}  // namespace repdl
