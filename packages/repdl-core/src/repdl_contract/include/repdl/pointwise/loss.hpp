// What losses are made of that is no formula over other ops (losses.md).
#pragma once

#include "repdl/exact/doubles.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/exact/log1p.hpp"
#include "repdl/exact/sigmoid.hpp"
#include "repdl/pointwise/activation.hpp"
#include "repdl/pointwise/function.hpp"

namespace repdl::pointwise {

using exact::log;
using exact::log1p;
using exact::sigmoid;

template <class T>
struct BinaryCrossEntropyElements : Vectors {
  static constexpr auto op = "binary_cross_entropy_elements";

  REPDL_HD static T bounded(T logarithm) {
    const T least = constant<T>(-100.0);
    return select(logarithm < least, least, logarithm);
  }
  REPDL_HD T operator()(T x, T target) const {
    const T one = constant<T>(1.0), no = bounded(log1p(constant<T>(-0.0) - x)), yes = bounded(log(x));
    return mul(target - one, no) - mul(target, yes);
  }
};

template <class T>
struct BinaryCrossEntropyWithLogitsElements : Vectors {
  static constexpr auto op = "binary_cross_entropy_with_logits_elements";
  REPDL_HD T operator()(T x, T target) const { return mul(constant<T>(1.0) - target, x) - LogSigmoid<T>()(x); }
};

template <class T>
struct BinaryCrossEntropyWithLogitsElementsBackward : Vectors {
  static constexpr auto op = "binary_cross_entropy_with_logits_elements_backward";
  REPDL_HD T operator()(T grad, T x, T target) const {
    return mul(grad, constant<T>(1.0) - target) - mul(grad, sigmoid(constant<T>(-0.0) - x));
  }
};

// A variance, or the smallest one that counts.
template <class T>
struct NllVariance : Arithmetic {
  static constexpr auto op = "nll_variance";
  using Options = std::tuple<double>;
  T least;

  REPDL_HD explicit NllVariance(double least) : least(constant<T>(least)) {}
  REPDL_HD T operator()(T x) const { return x < least ? least : x; }
};

// A parabola around 0, and lines from there on.
template <class T>
struct HuberBase : Arithmetic {
  using Options = std::tuple<double>;
  T delta;

  REPDL_HD explicit HuberBase(double delta) : delta(constant<T>(delta)) {}
  // x * sign(at), NaN for a NaN.
  REPDL_HD static T with_sign_of(T at, T x) { return at < T(0) ? -x : at > T(0) ? x : at == T(0) ? mul(x, T(0)) : at; }
};

template <class T>
struct Huber : HuberBase<T> {
  static constexpr auto op = "huber";
  using HuberBase<T>::HuberBase;

  REPDL_HD T operator()(T x) const {
    const T half = constant<T>(0.5), size = std::fabs(x);
    return size < this->delta ? mul(mul(half, x), x) : mul(this->delta, size - mul(half, this->delta));
  }
};

template <class T>
struct HuberBackward : HuberBase<T> {
  static constexpr auto op = "huber_backward";
  using HuberBase<T>::HuberBase;

  REPDL_HD T operator()(T grad, T x) const {
    const T line = this->with_sign_of(x, mul(grad, this->delta));
    return std::fabs(x) < this->delta ? mul(grad, x) : line;
  }
};

// The same divided by beta, which stands where delta does.
template <class T>
struct SmoothL1 : HuberBase<T> {
  static constexpr auto op = "smooth_l1";
  using HuberBase<T>::HuberBase;

  REPDL_HD T operator()(T x) const {
    const T half = constant<T>(0.5), beta = this->delta, size = std::fabs(x);
    return size < beta ? mul(mul(half, x), x) / beta : size - mul(half, beta);
  }
};

template <class T>
struct SmoothL1Backward : HuberBase<T> {
  static constexpr auto op = "smooth_l1_backward";
  using HuberBase<T>::HuberBase;

  REPDL_HD T operator()(T grad, T x) const {
    const T curve = mul(grad / this->delta, x), line = this->with_sign_of(x, grad);
    return std::fabs(x) < this->delta ? curve : line;
  }
};

using Losses =
    List<BinaryCrossEntropyElements, BinaryCrossEntropyWithLogitsElements, BinaryCrossEntropyWithLogitsElementsBackward,
         Huber, HuberBackward, NllVariance, SmoothL1, SmoothL1Backward>;

}  // namespace repdl::pointwise
