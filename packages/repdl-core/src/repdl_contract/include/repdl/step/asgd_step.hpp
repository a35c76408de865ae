// One element of a step of averaged stochastic gradient descent (asgd_step.md), with the average a:
//
//   g = grad                       (times -1, which is exact, to maximize)
//   g = fma(weight_decay, p, g)    (if weight_decay is not 0)
//   p = fma(g, -eta, p * (1 - lambd * eta))
//   a = mu == 1 ? p : a + (p - a) * mu
#pragma once

#include "repdl/contract/arithmetic.hpp"
#include "repdl/step/entry.hpp"

namespace repdl::step {

struct AsgdOptions {
  double eta, lambd, mu, weight_decay;
  bool maximize;
};

template <bool decay, bool averaged, class T>
class AsgdElement {
 public:
  static constexpr int columns = 3, variant = 2 * decay + averaged;

  REPDL_HD explicit AsgdElement(const AsgdOptions& o)
      : sign_(o.maximize ? -T(1) : T(1)), weight_decay_(static_cast<T>(o.weight_decay)),
        shrink_(static_cast<T>(1.0 - mul(o.lambd, o.eta))), step_(static_cast<T>(-o.eta)), mu_(static_cast<T>(o.mu)) {}

  REPDL_HD void operator()(const Columns<T, columns>& column, std::int64_t i) const {
    T &p = column.at[0][i], &a = column.at[2][i];
    T g = mul(column.at[1][i], sign_);
    if constexpr (decay) g = fma(weight_decay_, p, g);
    const T weight = fma(g, step_, mul(p, shrink_));
    p = canonical(weight);
    if constexpr (averaged)
      a = canonical(a + mul(weight - a, mu_));
    else
      a = canonical(weight);
  }

 private:
  T sign_, weight_decay_, shrink_, step_, mu_;
};

struct AsgdStep {
  static constexpr auto op = "asgd_step";
  static constexpr int lists = 3;  // params, grads, axs
  using Options = AsgdOptions;
  using Fields = step::Fields<double, double, double, double, bool>;

  template <class T, class F>
  static void choose(const AsgdOptions& o, const F& f) {
    with_option(o.weight_decay != 0, [&](auto decay) {
      with_option(o.mu != 1,
                  [&](auto averaged) { f(Type<AsgdElement<decltype(decay)::value, decltype(averaged)::value, T>>()); });
    });
  }
};

}  // namespace repdl::step
