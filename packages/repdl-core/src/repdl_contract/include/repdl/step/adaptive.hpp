// Steps that divide by a mean of squared gradients.
//
// One element of a step of Adam (adam_step.md), with moments m and v and, for AMSGrad, the
// largest v in x:
//
//   g = grad                                 (times -1, which is exact, to maximize)
//   p *= 1 - lr * weight_decay               (decoupled), or g = fma(weight_decay, p, g)
//   m = fma(g, 1 - beta1, m * beta1)
//   v = v * beta2 + (g * g) * (1 - beta2)
//   d = sqrt(max(x, v)) / sqrt(bias_correction2) + eps
//   p = p + (m / d) * -(lr / bias_correction1)
#pragma once

#include <cmath>

#include "repdl/step/entry.hpp"
#include "repdl/step/moment.hpp"

namespace repdl::step {

// The hyperparameters as they come: doubles until each is rounded to T once.
struct AdamOptions {
  double lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2;
  bool amsgrad, maximize, decoupled;
};

template <Decay decay, bool amsgrad, class T>
class AdamElement {
 public:
  static constexpr int columns = amsgrad ? 5 : 4, variant = 2 * static_cast<int>(decay) + amsgrad;

  REPDL_HD explicit AdamElement(const AdamOptions& o)
      : decayed_(o.lr, o.weight_decay, o.maximize), beta1_(static_cast<T>(o.beta1)),
        share1_(static_cast<T>(1.0 - o.beta1)), squares_(o.beta2), root_(static_cast<T>(std::sqrt(o.bias_correction2))),
        eps_(static_cast<T>(o.eps)), step_(static_cast<T>(-(o.lr / o.bias_correction1))) {}

  REPDL_HD void operator()(const Columns<T, columns>& column, std::int64_t i) const {
    T &p = column.at[0][i], &m = column.at[2][i], &v = column.at[3][i];
    T weight = p, g = column.at[1][i];
    decayed_(weight, g);
    const T first = fma(g, share1_, mul(m, beta1_));
    T second = squares_(v, g);
    m = canonical(first);
    v = canonical(second);
    if constexpr (amsgrad) {
      T& x = column.at[4][i];
      const T largest = x;
      // Not greater or equal: a NaN in x stays.
      second = !(largest <= second) && second == second ? largest : second;
      x = canonical(second);
    }
    const T denominator = std::sqrt(second) / root_ + eps_;
    p = canonical(weight + mul(first / denominator, step_));
  }

 private:
  Decayed<decay, T> decayed_;
  T beta1_, share1_;
  MeanOfSquares<T> squares_;
  T root_, eps_, step_;
};

struct AdamStep {
  static constexpr auto op = "adam_step";
  static constexpr int lists = 5;  // params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs
  using Options = AdamOptions;
  using Fields = step::Fields<double, double, double, double, double, double, double, bool, bool, bool>;

  template <class T, class F>
  static void choose(const AdamOptions& o, const F& f) {
    with_option(o.amsgrad, [&](auto amsgrad) {
      with_decay(o.weight_decay, o.decoupled,
                 [&](auto decay) { f(Type<AdamElement<decltype(decay)::value, decltype(amsgrad)::value, T>>()); });
    });
  }
};

// One element of a step of RMSprop (rmsprop_step.md), with the mean v of squares and, centered, the mean a of
// gradients; b is the momentum buffer:
//
//   g = grad                       (times -1, which is exact, to maximize)
//   g = fma(weight_decay, p, g)    (if weight_decay is not 0)
//   v = v * alpha + (g * g) * (1 - alpha)
//   a = fma(g, 1 - alpha, a * alpha)
//   q = g / (sqrt(centered ? v - a * a : v) + eps)
//   b = b * momentum + q,  p = fma(b, -lr, p);  without momentum p = p + q * -lr
struct RmspropOptions {
  double lr, alpha, eps, weight_decay, momentum;
  bool centered, maximize;
};

template <bool decay, bool centered, bool momentum, class T>
class RmspropElement {
 public:
  static constexpr int columns = 3 + centered + momentum, variant = 4 * centered + 2 * momentum + decay;

  REPDL_HD explicit RmspropElement(const RmspropOptions& o)
      : sign_(o.maximize ? -T(1) : T(1)), weight_decay_(static_cast<T>(o.weight_decay)),
        alpha_(static_cast<T>(o.alpha)), share_(static_cast<T>(1.0 - o.alpha)), eps_(static_cast<T>(o.eps)),
        momentum_(static_cast<T>(o.momentum)), step_(static_cast<T>(-o.lr)) {}

  REPDL_HD void operator()(const Columns<T, columns>& column, std::int64_t i) const {
    T &p = column.at[0][i], &v = column.at[2][i];
    T g = mul(column.at[1][i], sign_);
    if constexpr (decay) g = fma(weight_decay_, p, g);
    const T mean_of_squares = mul(v, alpha_) + mul(mul(g, g), share_);
    v = canonical(mean_of_squares);
    T variance = mean_of_squares;
    if constexpr (centered) {
      T& a = column.at[3][i];
      const T mean = fma(g, share_, mul(a, alpha_));
      a = canonical(mean);
      variance = variance - mul(mean, mean);
    }
    const T quotient = g / (std::sqrt(variance) + eps_);
    if constexpr (momentum) {
      T& b = column.at[3 + centered][i];
      const T buffer = mul(b, momentum_) + quotient;
      b = canonical(buffer);
      p = canonical(fma(buffer, step_, p));
    } else {
      p = canonical(p + mul(quotient, step_));
    }
  }

 private:
  T sign_, weight_decay_, alpha_, share_, eps_, momentum_, step_;
};

struct RmspropStep {
  static constexpr auto op = "rmsprop_step";
  static constexpr int lists = 5;  // params, grads, square_avgs, grad_avgs, momentum_buffers
  using Options = RmspropOptions;
  using Fields = step::Fields<double, double, double, double, double, bool, bool>;

  template <class T, class F>
  static void choose(const RmspropOptions& o, const F& f) {
    with_option(o.weight_decay != 0, [&](auto decay) {
      with_option(o.centered, [&](auto centered) {
        with_option(o.momentum != 0, [&](auto momentum) {
          f(Type<RmspropElement<decltype(decay)::value, decltype(centered)::value, decltype(momentum)::value, T>>());
        });
      });
    });
  }
};

using AdaptiveSteps = Steps<AdamStep, RmspropStep>;

}  // namespace repdl::step
