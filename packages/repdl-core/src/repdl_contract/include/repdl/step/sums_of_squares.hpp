// Steps that divide by a root of squared gradients alone.
//
// One element of a step of Adagrad (adagrad_step.md), with the sum s of squares:
//
//   g = grad                       (times -1, which is exact, to maximize)
//   g = fma(weight_decay, p, g)    (if weight_decay is not 0)
//   s = s + g * g
//   p = p + (g / (sqrt(s) + eps)) * -lr
#pragma once

#include <cmath>

#include "repdl/contract/arithmetic.hpp"
#include "repdl/step/entry.hpp"

namespace repdl::step {

struct AdagradOptions {
  double lr, eps, weight_decay;
  bool maximize;
};

template <bool decay, class T>
class AdagradElement {
 public:
  static constexpr int columns = 3, variant = decay;

  REPDL_HD explicit AdagradElement(const AdagradOptions& o)
      : sign_(o.maximize ? -T(1) : T(1)), weight_decay_(static_cast<T>(o.weight_decay)), eps_(static_cast<T>(o.eps)),
        step_(static_cast<T>(-o.lr)) {}

  REPDL_HD void operator()(const Columns<T, columns>& column, std::int64_t i) const {
    T &p = column.at[0][i], &s = column.at[2][i];
    T g = mul(column.at[1][i], sign_);
    if constexpr (decay) g = fma(weight_decay_, p, g);
    const T sum = s + mul(g, g);
    s = canonical(sum);
    p = canonical(p + mul(g / (std::sqrt(sum) + eps_), step_));
  }

 private:
  T sign_, weight_decay_, eps_, step_;
};

struct AdagradStep {
  static constexpr auto op = "adagrad_step";
  static constexpr int lists = 3;  // params, grads, state_sums
  using Options = AdagradOptions;
  using Fields = step::Fields<double, double, double, bool>;

  template <class T, class F>
  static void choose(const AdagradOptions& o, const F& f) {
    with_option(o.weight_decay != 0, [&](auto decay) { f(Type<AdagradElement<decltype(decay)::value, T>>()); });
  }
};

// One element of a step of Adadelta (adadelta_step.md), with the means v of squared gradients and u of squared
// updates:
//
//   g as above
//   v = v * rho + (g * g) * (1 - rho)
//   d = (sqrt(u + eps) / sqrt(v + eps)) * g
//   u = u * rho + (d * d) * (1 - rho)
//   p = fma(d, -lr, p)
struct AdadeltaOptions {
  double lr, rho, eps, weight_decay;
  bool maximize;
};

template <bool decay, class T>
class AdadeltaElement {
 public:
  static constexpr int columns = 4, variant = decay;

  REPDL_HD explicit AdadeltaElement(const AdadeltaOptions& o)
      : sign_(o.maximize ? -T(1) : T(1)), weight_decay_(static_cast<T>(o.weight_decay)), rho_(static_cast<T>(o.rho)),
        share_(static_cast<T>(1.0 - o.rho)), eps_(static_cast<T>(o.eps)), step_(static_cast<T>(-o.lr)) {}

  REPDL_HD void operator()(const Columns<T, columns>& column, std::int64_t i) const {
    T &p = column.at[0][i], &v = column.at[2][i], &u = column.at[3][i];
    T g = mul(column.at[1][i], sign_);
    if constexpr (decay) g = fma(weight_decay_, p, g);
    const T mean = mul(v, rho_) + mul(mul(g, g), share_);
    const T delta = mul(std::sqrt(u + eps_) / std::sqrt(mean + eps_), g);
    v = canonical(mean);
    u = canonical(mul(u, rho_) + mul(mul(delta, delta), share_));
    p = canonical(fma(delta, step_, p));
  }

 private:
  T sign_, weight_decay_, rho_, share_, eps_, step_;
};

struct AdadeltaStep {
  static constexpr auto op = "adadelta_step";
  static constexpr int lists = 4;  // params, grads, square_avgs, acc_deltas
  using Options = AdadeltaOptions;
  using Fields = step::Fields<double, double, double, double, bool>;

  template <class T, class F>
  static void choose(const AdadeltaOptions& o, const F& f) {
    with_option(o.weight_decay != 0, [&](auto decay) { f(Type<AdadeltaElement<decltype(decay)::value, T>>()); });
  }
};

using SumOfSquaresSteps = Steps<AdagradStep, AdadeltaStep>;

}  // namespace repdl::step
