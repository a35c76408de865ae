// rsqrt of a whole Vec: the bits of repdl/exact/rsqrt.hpp, most of the time without doubles.
//
// y = 1 / sqrt(x), rounded twice, then y + y (1 - x y**2) / 2, with an error near 2**-46.
// simd_mask.hpp says how results are decided.
#pragma once

#include "repdl/exact/rsqrt.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

template <class V>
[[gnu::always_inline]] inline V rsqrt(V given) {
  const Vec x = value_of(given);
  const Vec y = Vec::set1(1.0f) / root(x);
  const Vec t = x * y, t_rest = fma(x, y, -t);
  const Vec e = fma(-t_rest, y, fma(-t, y, Vec::set1(1.0f)));
  const Mask normal = (Vec::set1(0x1p-126f) < x) & (x < Vec::set1(exact::infinity()));
  return rounded_or<exact::rsqrt>(given, {y, y * e * Vec::set1(0.5f)}, y * Vec::set1(0x1p-42f), normal);
}

#else

inline Vec rsqrt(Vec x) { return each_of<exact::rsqrt>(x); }

#endif

}  // namespace repdl::cpu
