// One element of a step of resilient backpropagation (rprop_step.md), with the gradient before, q, and the size s:
//
//   g = grad    (times -1, which is exact, to maximize)
//   f = etaplus, etaminus or 1 where g * q is above 0, below 0, or neither; 1 for an f of 0
//   s = clamp(s * f, step_size_min, step_size_max)
//   g = f == etaminus ? 0 : g
//   p = p - sign(g) * s
//   q = g
#pragma once

#include "repdl/contract/arithmetic.hpp"
#include "repdl/step/entry.hpp"

namespace repdl::step {

struct RpropOptions {
  double etaminus, etaplus, step_size_min, step_size_max;
  bool maximize;
};

template <class T>
class RpropElement {
 public:
  static constexpr int columns = 4, variant = 0;

  REPDL_HD explicit RpropElement(const RpropOptions& o)
      : sign_(o.maximize ? -T(1) : T(1)), etaminus_(static_cast<T>(o.etaminus)), etaplus_(static_cast<T>(o.etaplus)),
        least_(static_cast<T>(o.step_size_min)), most_(static_cast<T>(o.step_size_max)) {}

  REPDL_HD void operator()(const Columns<T, columns>& column, std::int64_t i) const {
    T &p = column.at[0][i], &q = column.at[2][i], &s = column.at[3][i];
    T g = mul(column.at[1][i], sign_);
    const T product = mul(g, q);
    T factor = product > 0 ? etaplus_ : product < 0 ? etaminus_ : T(1);
    factor = factor == 0 ? T(1) : factor;
    T size = mul(s, factor);
    size = size < least_ || !(least_ == least_) ? least_ : size;
    size = size > most_ || !(most_ == most_) ? most_ : size;
    g = factor == etaminus_ ? T(0) : g;
    const T direction = g > 0 ? T(1) : g < 0 ? T(-1) : T(0);
    s = canonical(size);
    q = canonical(g);
    p = canonical(p - mul(direction, size));
  }

 private:
  T sign_, etaminus_, etaplus_, least_, most_;
};

struct RpropStep {
  static constexpr auto op = "rprop_step";
  static constexpr int lists = 4;  // params, grads, prevs, step_sizes
  using Options = RpropOptions;
  using Fields = step::Fields<double, double, double, double, bool>;

  template <class T, class F>
  static void choose(const RpropOptions&, const F& f) {
    f(Type<RpropElement<T>>());
  }
};

}  // namespace repdl::step
