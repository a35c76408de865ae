// exp2 of a whole Vec: the bits of repdl/exact/exp2.hpp, by pairs of floats.
#pragma once

#include "repdl/exact/exp2.hpp"
#include "repdl/exact/pairs/exp2.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

template <class V>
[[gnu::always_inline]] inline V exp2(V x) {
  return or_else<exactly<exact::exp2>>(x, pairs::exp2(value_of(x)));
}

#else

inline Vec exp2(Vec x) { return each_of<exact::exp2>(x); }

#endif

}  // namespace repdl::cpu
