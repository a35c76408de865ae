// erf of a whole Vec: the bits of repdl/exact/erf.hpp, by pairs of floats.
#pragma once

#include "repdl/exact/erf.hpp"
#include "repdl/exact/pairs/erf.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

template <class V>
[[gnu::always_inline]] inline V erf(V x) {
  return or_else<exactly<exact::erf>>(x, pairs::erf(value_of(x)));
}

#else

inline Vec erf(Vec x) { return each_of<exact::erf>(x); }

#endif

}  // namespace repdl::cpu
