// expm1 of a whole Vec: the bits of repdl/exact/expm1.hpp, by pairs of floats.
#pragma once

#include "repdl/exact/expm1.hpp"
#include "repdl/exact/pairs/expm1.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

template <class V>
[[gnu::always_inline]] inline V expm1(V x) {
  return or_else<exactly<exact::expm1>>(x, pairs::expm1(value_of(x)));
}

#else

inline Vec expm1(Vec x) { return each_of<exact::expm1>(x); }

#endif

}  // namespace repdl::cpu
