// One element of a step of stochastic gradient descent (sgd_step.md), with momentum buffer b:
//
//   g = grad                       (times -1, which is exact, to maximize)
//   g = fma(weight_decay, p, g)    (if weight_decay is not 0)
//   b = first ? g : fma(g, 1 - dampening, b * momentum)
//   g = nesterov ? fma(b, momentum, g) : b
//   p = fma(g, -lr, p)
#pragma once

#include "repdl/contract/arithmetic.hpp"

namespace repdl {

// The hyperparameters as they come: each is rounded to T once.
struct SgdOptions {
  double lr, weight_decay, momentum, dampening;
  bool nesterov, maximize, first;
};

enum class SgdMomentum { none, first, later };

template <bool decay, SgdMomentum momentum, bool nesterov, class T>
class SgdElement {
 public:
  REPDL_HD explicit SgdElement(const SgdOptions& o)
      : sign_(o.maximize ? -T(1) : T(1)), weight_decay_(static_cast<T>(o.weight_decay)),
        momentum_(static_cast<T>(o.momentum)), share_(static_cast<T>(1.0 - o.dampening)), step_(static_cast<T>(-o.lr)) {
  }

  // b is not used without momentum.
  REPDL_HD void operator()(T& p, T grad, T* b) const {
    T g = mul(grad, sign_);
    if constexpr (decay) g = fma(weight_decay_, p, g);
    if constexpr (momentum != SgdMomentum::none) {
      T buffer = g;
      if constexpr (momentum == SgdMomentum::later) buffer = fma(g, share_, mul(*b, momentum_));
      *b = canonical(buffer);
      g = nesterov ? fma(buffer, momentum_, g) : buffer;
    }
    p = canonical(fma(g, step_, p));
  }

 private:
  T sign_, weight_decay_, momentum_, share_, step_;
};

}  // namespace repdl
