// exp of a whole Vec: the bits of repdl/exact/exp.hpp, by pairs of floats.
#pragma once

#include "repdl/exact/exp.hpp"
#include "repdl/exact/pairs/exp.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

// exp(x) where `undecided`, y elsewhere.
__attribute__((noinline, cold)) inline Vec exp_undecided(Vec x, Vec y, Mask undecided) {
  const Mask zero = x < Vec::set1(-104.0f);  // exponents of masked elements
  y = select(zero, Vec::zero(), y);
  undecided = undecided & !zero;
  return any(undecided) ? exactly<exact::exp>(x, y, undecided) : y;
}

template <class V>
[[gnu::always_inline]] inline V exp(V x) {
  return or_else<exp_undecided>(x, pairs::exp(value_of(x)));
}

#else

inline Vec exp(Vec x) { return each_of<exact::exp>(x); }

#endif

}  // namespace repdl::cpu
