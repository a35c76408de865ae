// sin and cos of a whole Vec: the bits of repdl/exact/sin.hpp, by pairs of floats.
#pragma once

#include "repdl/exact/pairs/sin.hpp"
#include "repdl/exact/sin.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

template <class V>
[[gnu::always_inline]] inline V sin(V x) {
  return or_else<exactly<exact::Sin>>(x, pairs::sin(value_of(x)));
}

template <class V>
[[gnu::always_inline]] inline V cos(V x) {
  return or_else<exactly<exact::Cos>>(x, pairs::cos(value_of(x)));
}

#else

inline Vec sin(Vec x) { return each_of<exact::sin>(x); }
inline Vec cos(Vec x) { return each_of<exact::cos>(x); }

#endif

}  // namespace repdl::cpu
