// Functions with two paths: one without branches for nearly every argument, and one for the rest.
//
// Such a function is an object f, of one argument or of several, with
//     float fast(float x, std::uint32_t& uncertain) const;  // the result, or a bit set in uncertain
//     float accurate(float x) const;                        // the result for every x in uncertain
#pragma once

#include "repdl/contract/bits.hpp"

namespace repdl::exact {

// f(x) by whichever path it takes.
template <class F>
REPDL_HD inline float either(const F& f, float x) {
  std::uint32_t uncertain = 0;
  const float result = f.fast(x, uncertain);
  return uncertain == 0 ? result : f.accurate(x);
}

// y[i] = f(x[i]...): the loop over `fast` vectorises; y must not overlap x.
template <class F, class... X>
inline void evaluate(const F& f, float* __restrict y, std::int64_t n, const X* __restrict... x) {
  constexpr std::int64_t block = 256;
  std::uint32_t uncertain_each[block];
  for (std::int64_t first = 0; first < n; first += block) {
    const std::int64_t count = n - first < block ? n - first : block;
    std::uint32_t any = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint32_t uncertain = 0;
      y[first + i] = f.fast(x[first + i]..., uncertain);
      uncertain_each[i] = uncertain;
      any |= uncertain;
    }
    if (any == 0) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      if (uncertain_each[i] != 0) y[first + i] = f.accurate(x[first + i]...);
    }
  }
}

}  // namespace repdl::exact
