// One element of the norms (layer_norm.md, group_norm.md, rms_norm.md, batch_norm.md), with
// h = (x - mean) * rstd. rms_norm is the case of mean +0 and s +0: x - +0 is x, of -0 too.
#pragma once

#include <cmath>
#include <cstdint>

#include "repdl/contract/arithmetic.hpp"

namespace repdl {

// 1 / sqrt(q / n + eps) of the sum q of n squares.
template <class T>
REPDL_HD T norm_rstd(T q, std::int64_t n, double eps) {
  return T(1) / std::sqrt(q / static_cast<T>(n) + static_cast<T>(eps));
}

template <class T>
REPDL_HD T normalised(T x, T mean, T rstd) {
  return mul(x - mean, rstd);
}

// h * weight + bias with the vectors that there are, elements `at` of them.
template <class T>
REPDL_HD T affine(T h, const T* weight, const T* bias, std::int64_t at) {
  if (weight && bias) return canonical(fma(h, weight[at], bias[at]));
  if (weight) return canonical(mul(h, weight[at]));
  return canonical(bias ? h + bias[at] : h);
}

// The gradient of x, from that of h in w and the means s of w, t of w * h.
template <class T>
REPDL_HD T norm_gradient(T w, T h, T s, T t, T rstd) {
  return canonical(mul(rstd, fma(-h, t, w - s)));
}

}  // namespace repdl
