// Parts of steps: weight decay, and means of gradients and of their squares.
#pragma once

#include <type_traits>

#include "repdl/contract/arithmetic.hpp"

namespace repdl::step {

enum class Decay { none, gradient, decoupled };

// Calls f with the kind of weight decay as a type.
template <class F>
void with_decay(double weight_decay, bool decoupled, const F& f) {
  if (weight_decay == 0)
    f(std::integral_constant<Decay, Decay::none>());
  else if (decoupled)
    f(std::integral_constant<Decay, Decay::decoupled>());
  else
    f(std::integral_constant<Decay, Decay::gradient>());
}

// The weight and the gradient after the decay.
template <Decay decay, class T>
class Decayed {
 public:
  REPDL_HD Decayed(double lr, double weight_decay, bool maximize)
      : sign_(maximize ? -T(1) : T(1)), weight_decay_(static_cast<T>(weight_decay)),
        shrink_(static_cast<T>(1.0 - mul(lr, weight_decay))) {}

  REPDL_HD void operator()(T& weight, T& gradient) const {
    gradient = mul(gradient, sign_);
    if constexpr (decay == Decay::decoupled) weight = mul(weight, shrink_);
    if constexpr (decay == Decay::gradient) gradient = fma(weight_decay_, weight, gradient);
  }

 private:
  T sign_, weight_decay_, shrink_;
};

// m and g, the second with the weight 1 - beta.
template <class T>
class Lerp {
 public:
  REPDL_HD explicit Lerp(double beta) : share_(static_cast<T>(1.0 - beta)), rest_(static_cast<T>(1.0 - (1.0 - beta))) {}
  REPDL_HD T operator()(T m, T g) const { return fma(g, share_, mul(m, rest_)); }

 private:
  T share_, rest_;
};

// v and g * g, the second with the share 1 - beta.
template <class T>
class MeanOfSquares {
 public:
  REPDL_HD explicit MeanOfSquares(double beta) : beta_(static_cast<T>(beta)), share_(static_cast<T>(1.0 - beta)) {}
  REPDL_HD T operator()(T v, T g) const { return mul(v, beta_) + mul(mul(g, g), share_); }

 private:
  T beta_, share_;
};

}  // namespace repdl::step
