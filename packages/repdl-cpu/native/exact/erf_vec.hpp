// erf of a whole Vec: the bits of repdl/exact/erf.hpp, by pairs of floats.
#pragma once

#include "exact/erf_avx2.hpp"
#include "repdl/exact/erf.hpp"
#include "repdl/exact/pairs/erf.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

template <class V>
[[gnu::always_inline]] inline V erf(V x) {
#if defined(__AVX512F__)
  const Rounded y = pairs::erf(value_of(x));
#else
  const Rounded y = erf_by_eight(value_of(x));
#endif
  return or_else<exactly<exact::erf>>(x, y);
}

#else

inline Vec erf(Vec x) { return each_of<exact::erf>(x); }

#endif

}  // namespace repdl::cpu
