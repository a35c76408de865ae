// Steps with a first moment m, which is `lerp` of elementwise.md: m = fma(g, w, m * (1 - w)), w = 1 - beta1.
//
// In all of them
//
//   g = grad                       (times -1, which is exact, to maximize)
//   p *= 1 - lr * weight_decay     (decoupled), or g = fma(weight_decay, p, g)
//
// One element of a step of Adamax (adamax_step.md), with the largest gradient u:
//
//   u = maximum(u * beta2, |g| + eps)
//   p = p + (m / u) * -lr
#pragma once

#include <cmath>

#include "repdl/step/entry.hpp"
#include "repdl/step/moment.hpp"

namespace repdl::step {

struct AdamaxOptions {
  double lr, beta1, beta2, eps, weight_decay;
  bool maximize;
};

template <Decay decay, class T>
class AdamaxElement {
 public:
  static constexpr int columns = 4, variant = static_cast<int>(decay);

  REPDL_HD explicit AdamaxElement(const AdamaxOptions& o)
      : decayed_(o.lr, o.weight_decay, o.maximize), moment_(o.beta1), beta2_(static_cast<T>(o.beta2)),
        eps_(static_cast<T>(o.eps)), step_(static_cast<T>(-o.lr)) {}

  REPDL_HD void operator()(const Columns<T, columns>& column, std::int64_t i) const {
    T &m = column.at[2][i], &u = column.at[3][i];
    T weight = column.at[0][i], g = column.at[1][i];
    decayed_(weight, g);
    const T first = moment_(m, g), before = mul(u, beta2_), now = std::fabs(g) + eps_;
    const T largest = before < now || now != now ? now : before;
    m = canonical(first);
    u = canonical(largest);
    column.at[0][i] = canonical(weight + mul(first / largest, step_));
  }

 private:
  Decayed<decay, T> decayed_;
  Lerp<T> moment_;
  T beta2_, eps_, step_;
};

struct AdamaxStep {
  static constexpr auto op = "adamax_step";
  static constexpr int lists = 4;  // params, grads, exp_avgs, exp_infs
  using Options = AdamaxOptions;
  using Fields = step::Fields<double, double, double, double, double, bool>;

  template <class T, class F>
  static void choose(const AdamaxOptions& o, const F& f) {
    with_decay(o.weight_decay, false, [&](auto decay) { f(Type<AdamaxElement<decltype(decay)::value, T>>()); });
  }
};

// One element of a step of NAdam (nadam_step.md), with the mean v of squares:
//
//   v = v * beta2 + (g * g) * (1 - beta2)
//   d = sqrt(v / bias_correction2) + eps
//   p = p + (g / d) * -grad_lr
//   p = p + (m / d) * -exp_avg_lr
struct NadamOptions {
  double lr, beta1, beta2, eps, weight_decay, bias_correction2, grad_lr, exp_avg_lr;
  bool maximize, decoupled;
};

template <Decay decay, class T>
class NadamElement {
 public:
  static constexpr int columns = 4, variant = static_cast<int>(decay);

  REPDL_HD explicit NadamElement(const NadamOptions& o)
      : decayed_(o.lr, o.weight_decay, o.maximize), moment_(o.beta1), squares_(o.beta2),
        correction_(static_cast<T>(o.bias_correction2)), eps_(static_cast<T>(o.eps)),
        grad_step_(static_cast<T>(-o.grad_lr)), step_(static_cast<T>(-o.exp_avg_lr)) {}

  REPDL_HD void operator()(const Columns<T, columns>& column, std::int64_t i) const {
    T &m = column.at[2][i], &v = column.at[3][i];
    T weight = column.at[0][i], g = column.at[1][i];
    decayed_(weight, g);
    const T first = moment_(m, g), second = squares_(v, g);
    const T denominator = std::sqrt(second / correction_) + eps_;
    m = canonical(first);
    v = canonical(second);
    weight = weight + mul(g / denominator, grad_step_);
    column.at[0][i] = canonical(weight + mul(first / denominator, step_));
  }

 private:
  Decayed<decay, T> decayed_;
  Lerp<T> moment_;
  MeanOfSquares<T> squares_;
  T correction_, eps_, grad_step_, step_;
};

struct NadamStep {
  static constexpr auto op = "nadam_step";
  static constexpr int lists = 4;  // params, grads, exp_avgs, exp_avg_sqs
  using Options = NadamOptions;
  using Fields = step::Fields<double, double, double, double, double, double, double, double, bool, bool>;

  template <class T, class F>
  static void choose(const NadamOptions& o, const F& f) {
    with_decay(o.weight_decay, o.decoupled, [&](auto decay) { f(Type<NadamElement<decltype(decay)::value, T>>()); });
  }
};

// One element of a step of RAdam (radam_step.md), with the mean v of squares as in NAdam:
//
//   r = (m / bias_correction1) * lr
//   r = (r * ((1 / (sqrt(v) + eps)) * sqrt(bias_correction2))) * rect    (if rect is not 0)
//   p = p - r
struct RadamOptions {
  double lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2, rect;
  bool maximize, decoupled;
};

template <Decay decay, bool rectified, class T>
class RadamElement {
 public:
  static constexpr int columns = 4, variant = 2 * static_cast<int>(decay) + rectified;

  REPDL_HD explicit RadamElement(const RadamOptions& o)
      : decayed_(o.lr, o.weight_decay, o.maximize), moment_(o.beta1), squares_(o.beta2), lr_(static_cast<T>(o.lr)),
        eps_(static_cast<T>(o.eps)), correction_(static_cast<T>(o.bias_correction1)),
        root_(static_cast<T>(std::sqrt(o.bias_correction2))), rect_(static_cast<T>(o.rect)) {}

  REPDL_HD void operator()(const Columns<T, columns>& column, std::int64_t i) const {
    T &m = column.at[2][i], &v = column.at[3][i];
    T weight = column.at[0][i], g = column.at[1][i];
    decayed_(weight, g);
    const T first = moment_(m, g), second = squares_(v, g);
    m = canonical(first);
    v = canonical(second);
    T update = mul(first / correction_, lr_);
    if constexpr (rectified) update = mul(mul(update, mul(T(1) / (std::sqrt(second) + eps_), root_)), rect_);
    column.at[0][i] = canonical(weight - update);
  }

 private:
  Decayed<decay, T> decayed_;
  Lerp<T> moment_;
  MeanOfSquares<T> squares_;
  T lr_, eps_, correction_, root_, rect_;
};

struct RadamStep {
  static constexpr auto op = "radam_step";
  static constexpr int lists = 4;  // params, grads, exp_avgs, exp_avg_sqs
  using Options = RadamOptions;
  using Fields = step::Fields<double, double, double, double, double, double, double, double, bool, bool>;

  template <class T, class F>
  static void choose(const RadamOptions& o, const F& f) {
    with_decay(o.weight_decay, o.decoupled, [&](auto decay) {
      with_option(o.rect != 0, [&](auto rectified) {
        f(Type<RadamElement<decltype(decay)::value, decltype(rectified)::value, T>>());
      });
    });
  }
};

using MomentSteps = Steps<AdamaxStep, NadamStep, RadamStep>;

}  // namespace repdl::step
