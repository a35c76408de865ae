// exp2 of a whole Vec: the bits of repdl/exact/exp2.hpp, most of the time without doubles.
//
//   x = k + f,  |f| <= 1 / 2 / entries, without error;  f ln 2 = r + low
//
// exp_vec.hpp does the rest, and says how results are decided.
#pragma once

#include "exact/exp_vec.hpp"
#include "repdl/exact/exp2.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

[[gnu::always_inline]] inline Vec exp2(Vec x) {
  const Vec z = where(not_tiny(x), x);
  const Vec shifted = z + Vec::set1(table_magic), k = shifted - Vec::set1(table_magic), f = z - k;
  const Vec ln_2 = Vec::set1(0x1.62e43p-1f), r = f * ln_2;
  const Vec low = fma(f, Vec::set1(-0x1.05c61p-29f), fma(f, ln_2, -r)) + exp_table_rest<true>(shifted);
  const ExpVecParts e = exp_vec_parts(ExpReduced{k, shifted, r, low});
  const Rounded y = rounded(e.times(e.t), Vec::set1(exp_margin));
  const Mask decided = y.decided & (absolute(x) < Vec::set1(125.0f));
  return or_else<exactly<exact::exp2>>(x, scaled(y.value, e.k, e.shifted), decided);
}

#else

inline Vec exp2(Vec x) { return each_of<exact::exp2>(x); }

#endif

}  // namespace repdl::cpu
