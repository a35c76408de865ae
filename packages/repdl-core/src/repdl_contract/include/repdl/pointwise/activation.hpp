// Activations (activation.md): fixed sequences of operations, some around the exact functions.
#pragma once

#include "repdl/exact/doubles.hpp"
#include "repdl/exact/erf.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/expm1.hpp"
#include "repdl/exact/log1p.hpp"
#include "repdl/exact/sigmoid.hpp"
#include "repdl/exact/tanh.hpp"
#include "repdl/pointwise/function.hpp"

namespace repdl::pointwise {

using exact::erf;
using exact::exp;
using exact::expm1;
using exact::log1p;
using exact::sigmoid;
using exact::tanh;

template <class T>
struct Silu : Vectors {
  static constexpr auto op = "silu";
  REPDL_HD T operator()(T x) const { return mul(x, sigmoid(x)); }
};

template <class T>
struct SiluBackward : Vectors {
  static constexpr auto op = "silu_backward";
  REPDL_HD T operator()(T grad, T x) const {
    const T s = sigmoid(x), one = constant<T>(1.0);
    return mul(grad, mul(s, one + mul(x, one - s)));
  }
};

template <class T>
struct Elu : Vectors {
  static constexpr auto op = "elu";
  using Options = std::tuple<double>;
  T alpha;

  REPDL_HD explicit Elu(double alpha) : alpha(constant<T>(alpha)) {}
  REPDL_HD T operator()(T x) const { return select(constant<T>(0.0) < x, x, mul(expm1(x), alpha)); }
};

template <class T>
struct EluBackward : Vectors {
  static constexpr auto op = "elu_backward";
  using Options = std::tuple<double>;
  T alpha;

  REPDL_HD explicit EluBackward(double alpha) : alpha(constant<T>(alpha)) {}
  REPDL_HD T operator()(T grad, T x) const { return select(constant<T>(0.0) < x, grad, mul(grad, mul(exp(x), alpha))); }
};

// `approximate` is "none" or "tanh".
template <class T>
struct GeluBase : Vectors {
  using Options = std::tuple<std::string_view>;
  bool tanh_form;

  static bool flag(std::string_view approximate) { return approximate == "tanh"; }
  explicit GeluBase(std::string_view approximate) : tanh_form(flag(approximate)) {}
  REPDL_HD explicit GeluBase(bool tanh_form) : tanh_form(tanh_form) {}

  static constexpr double root_half = 0x1.6a09e667f3bcdp-1;  // sqrt(1/2)
  static constexpr double root_2_pi = 0x1.9884533d43651p-1;  // sqrt(2 / pi)
  static constexpr double density_0 = 0x1.9884533d43651p-2;  // 1 / sqrt(2 pi)
  static constexpr double cubic = 0.044715, cubic_3 = 0.134145;

  // t, near -1 for very negative x and near 1 for very positive x: gelu is (x / 2) (1 + t).
  REPDL_HD T inner(T x) const {
    if (!tanh_form) return erf(mul(x, constant<T>(root_half)));
    return tanh(mul(x + mul(mul(mul(x, x), x), constant<T>(cubic)), constant<T>(root_2_pi)));
  }
};

template <class T>
struct Gelu : GeluBase<T> {
  static constexpr auto op = "gelu";
  using GeluBase<T>::GeluBase;

  REPDL_HD T operator()(T x) const { return mul(mul(x, constant<T>(0.5)), constant<T>(1.0) + this->inner(x)); }
};

template <class T>
struct GeluBackward : GeluBase<T> {
  static constexpr auto op = "gelu_backward";
  using Base = GeluBase<T>;
  using Base::Base;

  REPDL_HD T operator()(T grad, T x) const {
    const T one = constant<T>(1.0), half = constant<T>(0.5), t = this->inner(x), up = mul(half, one + t);
    if (!this->tanh_form) {
      const T density = mul(exp(mul(mul(x, x), constant<T>(-0.5))), constant<T>(Base::density_0));
      return mul(grad, up + mul(x, density));
    }
    const T u = mul(one + mul(mul(x, x), constant<T>(Base::cubic_3)), constant<T>(Base::root_2_pi));
    return mul(grad, up + mul(mul(mul(x, half), one - mul(t, t)), u));
  }
};

template <class T>
struct Hardsigmoid : Arithmetic {
  static constexpr auto op = "hardsigmoid";
  REPDL_HD T operator()(T x) const {
    const T above = x + T(3), positive = above < T(0) ? T(0) : above;
    return (positive > T(6) ? T(6) : positive) / T(6);
  }
};

template <class T>
struct Hardswish : Arithmetic {
  static constexpr auto op = "hardswish";
  REPDL_HD T operator()(T x) const {
    const T above = x + T(3), positive = above < T(0) ? T(0) : above;
    return mul(x, positive > T(6) ? T(6) : positive) / T(6);
  }
};

template <class T>
struct HardswishBackward : Arithmetic {
  static constexpr auto op = "hardswish_backward";
  REPDL_HD T operator()(T grad, T x) const {
    return x <= T(-3) ? T(0) : x < T(3) ? mul(grad, x / T(3) + T(0.5)) : grad;
  }
};

template <class T>
struct LeakyRelu : Arithmetic {
  static constexpr auto op = "leaky_relu";
  using Options = std::tuple<double>;
  T slope;

  REPDL_HD explicit LeakyRelu(double negative_slope) : slope(constant<T>(negative_slope)) {}
  REPDL_HD T operator()(T x) const { return x > T(0) ? x : mul(x, slope); }
};

template <class T>
struct LeakyReluBackward : Arithmetic {
  static constexpr auto op = "leaky_relu_backward";
  using Options = std::tuple<double>;
  T slope;

  REPDL_HD explicit LeakyReluBackward(double negative_slope) : slope(constant<T>(negative_slope)) {}
  REPDL_HD T operator()(T grad, T x) const { return x > T(0) ? grad : mul(grad, slope); }
};

template <class T>
struct Softplus : Vectors {
  static constexpr auto op = "softplus";
  using Options = std::tuple<double, double>;
  T beta, threshold;

  REPDL_HD Softplus(double beta, double threshold) : beta(constant<T>(beta)), threshold(constant<T>(threshold)) {}
  REPDL_HD T operator()(T x) const {
    const T z = mul(x, beta);
    return select(threshold < z, x, log1p(exp(z)) / beta);
  }
};

template <class T>
struct SoftplusBackward : Vectors {
  static constexpr auto op = "softplus_backward";
  using Options = std::tuple<double, double>;
  T beta, threshold;

  REPDL_HD SoftplusBackward(double beta, double threshold)
      : beta(constant<T>(beta)), threshold(constant<T>(threshold)) {}
  REPDL_HD T operator()(T grad, T x) const {
    const T z = mul(x, beta);
    return select(threshold < z, grad, mul(grad, sigmoid(z)));
  }
};

template <class T>
struct Celu : Vectors {
  static constexpr auto op = "celu";
  using Options = std::tuple<double>;
  T alpha;

  REPDL_HD explicit Celu(double alpha) : alpha(constant<T>(alpha)) {}
  REPDL_HD T operator()(T x) const { return select(constant<T>(0.0) < x, x, mul(expm1(x / alpha), alpha)); }
};

template <class T>
struct CeluBackward : Vectors {
  static constexpr auto op = "celu_backward";
  using Options = std::tuple<double>;
  T alpha;

  REPDL_HD explicit CeluBackward(double alpha) : alpha(constant<T>(alpha)) {}
  REPDL_HD T operator()(T grad, T x) const { return select(constant<T>(0.0) < x, grad, mul(grad, exp(x / alpha))); }
};

struct SeluConstants : Vectors {
  static constexpr double scale = 1.0507009873554805, scale_alpha = 1.7580993408473766;
};

template <class T>
struct Selu : SeluConstants {
  static constexpr auto op = "selu";
  REPDL_HD T operator()(T x) const {
    return select(constant<T>(0.0) < x, mul(x, constant<T>(scale)), mul(expm1(x), constant<T>(scale_alpha)));
  }
};

template <class T>
struct SeluBackward : SeluConstants {
  static constexpr auto op = "selu_backward";
  REPDL_HD T operator()(T grad, T x) const {
    const T slope = select(constant<T>(0.0) < x, constant<T>(scale), mul(exp(x), constant<T>(scale_alpha)));
    return mul(grad, slope);
  }
};

template <class T>
struct LogSigmoid : Vectors {
  static constexpr auto op = "logsigmoid";
  // nvcc would make min.f32 of select(x < 0, x, 0), which drops a NaN and orders zeros.
  REPDL_HD T operator()(T x) const {
    const T zero = constant<T>(0.0), minus = zero - x, below = zero - select(x < zero, minus, zero);
    return below - log1p(exp(select(x < zero, x, minus)));
  }
};

template <class T>
struct Mish : Vectors {
  static constexpr auto op = "mish";
  REPDL_HD T operator()(T x) const { return mul(x, tanh(log1p(exp(x)))); }
};

template <class T>
struct MishBackward : Vectors {
  static constexpr auto op = "mish_backward";
  REPDL_HD T operator()(T grad, T x) const {
    const T t = tanh(log1p(exp(x)));
    return mul(grad, t + mul(mul(x, sigmoid(x)), constant<T>(1.0) - mul(t, t)));
  }
};

template <class T>
struct Tanhshrink : Vectors {
  static constexpr auto op = "tanhshrink";
  REPDL_HD T operator()(T x) const { return x - tanh(x); }
};

template <class T>
struct Softsign : Arithmetic {
  static constexpr auto op = "softsign";
  REPDL_HD T operator()(T x) const { return x / (T(1) + (x < T(0) ? -x : x)); }
};

template <class T>
struct Prelu : Arithmetic {
  static constexpr auto op = "prelu";
  REPDL_HD T operator()(T x, T weight) const { return x > T(0) ? x : mul(weight, x); }
};

// Two bounds, or one and what stands in place of what is not above it.
template <class T>
struct Bounds : Arithmetic {
  using Options = std::tuple<double, double>;
  T low, high;

  REPDL_HD Bounds(double low, double high) : low(constant<T>(low)), high(constant<T>(high)) {}
};

template <class T>
struct Hardtanh : Bounds<T> {
  static constexpr auto op = "hardtanh";
  using Bounds<T>::Bounds;
  REPDL_HD T operator()(T x) const { return x < this->low ? this->low : x > this->high ? this->high : x; }
};

template <class T>
struct HardtanhBackward : Bounds<T> {
  static constexpr auto op = "hardtanh_backward";
  using Bounds<T>::Bounds;
  REPDL_HD T operator()(T grad, T x) const { return x <= this->low || x >= this->high ? T(0) : grad; }
};

template <class T>
struct Threshold : Bounds<T> {
  static constexpr auto op = "threshold";
  using Bounds<T>::Bounds;
  REPDL_HD T operator()(T x) const { return x <= this->low ? this->high : x; }
};

template <class T>
struct Bound : Arithmetic {
  using Options = std::tuple<double>;
  T bound;

  REPDL_HD explicit Bound(double bound) : bound(constant<T>(bound)) {}
};

template <class T>
struct ThresholdBackward : Bound<T> {
  static constexpr auto op = "threshold_backward";
  using Bound<T>::Bound;
  REPDL_HD T operator()(T grad, T x) const { return x <= this->bound ? T(0) : grad; }
};

template <class T>
struct Hardshrink : Bound<T> {
  static constexpr auto op = "hardshrink";
  using Bound<T>::Bound;
  REPDL_HD T operator()(T x) const { return x >= -this->bound && x <= this->bound ? T(0) : x; }
};

template <class T>
struct HardshrinkBackward : Bound<T> {
  static constexpr auto op = "hardshrink_backward";
  using Bound<T>::Bound;
  REPDL_HD T operator()(T grad, T x) const { return x >= -this->bound && x <= this->bound ? T(0) : grad; }
};

template <class T>
struct Softshrink : Bound<T> {
  static constexpr auto op = "softshrink";
  using Bound<T>::Bound;
  REPDL_HD T operator()(T x) const {
    return x > this->bound ? x - this->bound : x < -this->bound ? x + this->bound : mul(x, T(0));
  }
};

using Activations =
    List<Celu, CeluBackward, Elu, EluBackward, Gelu, GeluBackward, Hardshrink, HardshrinkBackward, Hardsigmoid,
         Hardswish, HardswishBackward, Hardtanh, HardtanhBackward, LeakyRelu, LeakyReluBackward, LogSigmoid, Mish,
         MishBackward, Prelu, Selu, SeluBackward, Silu, SiluBackward, Softplus, SoftplusBackward, Softshrink, Softsign,
         Tanhshrink, Threshold, ThresholdBackward>;

}  // namespace repdl::pointwise
