// rsqrt of a whole Vec: the bits of repdl/exact/rsqrt.hpp, by pairs of floats.
#pragma once

#include "repdl/exact/pairs/rsqrt.hpp"
#include "repdl/exact/rsqrt.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

template <class V>
[[gnu::always_inline]] inline V rsqrt(V x) {
  return or_else<exactly<exact::rsqrt>>(x, pairs::rsqrt(value_of(x)));
}

#else

inline Vec rsqrt(Vec x) { return each_of<exact::rsqrt>(x); }

#endif

}  // namespace repdl::cpu
