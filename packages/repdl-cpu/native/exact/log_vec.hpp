// log, log2, log10 and log1p of a whole Vec: the bits of repdl/exact/log.hpp and so on, by pairs of floats.
#pragma once

#include "repdl/exact/log.hpp"
#include "repdl/exact/log10.hpp"
#include "repdl/exact/log1p.hpp"
#include "repdl/exact/log2.hpp"
#include "repdl/exact/pairs/log.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

template <class V>
[[gnu::always_inline]] inline V log(V x) {
  return or_else<exactly<exact::log>>(x, pairs::log(value_of(x)));
}

template <class V>
[[gnu::always_inline]] inline V log2(V x) {
  return or_else<exactly<exact::log2>>(x, pairs::log2(value_of(x)));
}

template <class V>
[[gnu::always_inline]] inline V log10(V x) {
  return or_else<exactly<exact::log10>>(x, pairs::log10(value_of(x)));
}

template <class V>
[[gnu::always_inline]] inline V log1p(V x) {
  return or_else<exactly<exact::log1p>>(x, pairs::log1p(value_of(x)));
}

#else

inline Vec log(Vec x) { return each_of<exact::log>(x); }
inline Vec log2(Vec x) { return each_of<exact::log2>(x); }
inline Vec log10(Vec x) { return each_of<exact::log10>(x); }
inline Vec log1p(Vec x) { return each_of<exact::log1p>(x); }

#endif

}  // namespace repdl::cpu
