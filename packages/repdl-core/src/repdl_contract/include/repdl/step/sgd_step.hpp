// One element of a step of stochastic gradient descent (sgd_step.md), with momentum buffer b:
//
//   g = grad                       (times -1, which is exact, to maximize)
//   g = fma(weight_decay, p, g)    (if weight_decay is not 0)
//   b = first ? g : fma(g, 1 - dampening, b * momentum)
//   g = nesterov ? fma(b, momentum, g) : b
//   p = fma(g, -lr, p)
#pragma once

#include "repdl/contract/arithmetic.hpp"
#include "repdl/step/entry.hpp"

namespace repdl::step {

// The hyperparameters as they come: each is rounded to T once.
struct SgdOptions {
  double lr, weight_decay, momentum, dampening;
  bool nesterov, maximize, first;
};

enum class SgdMomentum { none, first, later };

template <bool decay, SgdMomentum momentum, bool nesterov, class T>
class SgdElement {
 public:
  static constexpr int columns = momentum == SgdMomentum::none ? 2 : 3;
  static constexpr int variant = 4 * static_cast<int>(momentum) + 2 * decay + nesterov;

  REPDL_HD explicit SgdElement(const SgdOptions& o)
      : sign_(o.maximize ? -T(1) : T(1)), weight_decay_(static_cast<T>(o.weight_decay)),
        momentum_(static_cast<T>(o.momentum)), share_(static_cast<T>(1.0 - o.dampening)), step_(static_cast<T>(-o.lr)) {
  }

  REPDL_HD void operator()(const Columns<T, columns>& column, std::int64_t i) const {
    T& p = column.at[0][i];
    T g = mul(column.at[1][i], sign_);
    if constexpr (decay) g = fma(weight_decay_, p, g);
    if constexpr (momentum != SgdMomentum::none) {
      T &b = column.at[2][i], buffer = g;
      if constexpr (momentum == SgdMomentum::later) buffer = fma(g, share_, mul(b, momentum_));
      b = canonical(buffer);
      g = nesterov ? fma(buffer, momentum_, g) : buffer;
    }
    p = canonical(fma(g, step_, p));
  }

 private:
  T sign_, weight_decay_, momentum_, share_, step_;
};

struct SgdStep {
  static constexpr auto op = "sgd_step";
  static constexpr int lists = 3;  // params, grads, momentum_buffers
  using Options = SgdOptions;
  using Fields = step::Fields<double, double, double, double, bool, bool, bool>;

  template <class T, class F>
  static void choose(const SgdOptions& o, const F& f) {
    with_option(o.weight_decay != 0, [&](auto with_decay) {
      with_option(o.nesterov, [&](auto with_nesterov) {
        constexpr bool decay = decltype(with_decay)::value, nesterov = decltype(with_nesterov)::value;
        if (o.momentum == 0)
          f(Type<SgdElement<decay, SgdMomentum::none, false, T>>());
        else if (o.first)
          f(Type<SgdElement<decay, SgdMomentum::first, nesterov, T>>());
        else
          f(Type<SgdElement<decay, SgdMomentum::later, nesterov, T>>());
      });
    });
  }
};

}  // namespace repdl::step
