// What losses are made of that is no formula over other ops (losses.md).
#pragma once

#include "repdl/exact/doubles.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/exact/log1p.hpp"
#include "repdl/pointwise/function.hpp"

namespace repdl::pointwise {

using exact::log;
using exact::log1p;

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

// A variance, or the smallest one that counts.
template <class T>
struct NllVariance : Arithmetic {
  static constexpr auto op = "nll_variance";
  using Options = std::tuple<double>;
  T least;

  REPDL_HD explicit NllVariance(double least) : least(constant<T>(least)) {}
  REPDL_HD T operator()(T x) const { return x < least ? least : x; }
};

using Losses = List<BinaryCrossEntropyElements, NllVariance>;

}  // namespace repdl::pointwise
