// Formulas around a logarithm (elementwise.md).
#pragma once

#include "repdl/exact/doubles.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/exp2.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/exact/log1p.hpp"
#include "repdl/pointwise/function.hpp"

namespace repdl::pointwise {

using exact::exp;
using exact::exp2;
using exact::log;
using exact::log1p;

// The larger of two logarithms, and how far apart they are: 0 of equal infinities. NaN where one is.
template <class T>
struct LogarithmPair {
  T largest, minus_distance;

  REPDL_HD LogarithmPair(T x, T y) {
    const auto less = x < y;
    const T zero = constant<T>(0.0), difference = select(x == y, zero, x - y);
    largest = select(less, y, x);
    minus_distance = select(less, difference, zero - difference);
  }
};

template <class T>
struct Logaddexp : Vectors {
  static constexpr auto op = "logaddexp";
  REPDL_HD T operator()(T x, T y) const {
    const LogarithmPair<T> pair(x, y);
    return pair.largest + log1p(exp(pair.minus_distance));
  }
};

template <class T>
struct Logaddexp2 : Vectors {
  static constexpr auto op = "logaddexp2";
  REPDL_HD T operator()(T x, T y) const {
    const LogarithmPair<T> pair(x, y);
    return pair.largest + log1p(exp2(pair.minus_distance)) / constant<T>(0.6931471805599453);
  }
};

template <class T>
struct Xlogy : Vectors {
  static constexpr auto op = "xlogy";
  REPDL_HD T operator()(T x, T y) const {
    const T zero = constant<T>(0.0);
    const auto none = (x == zero) & (y == y);
    return select(none, zero, mul(x, log(select(none, constant<T>(1.0), y))));
  }
};

using Logarithms = List<Logaddexp, Logaddexp2, Xlogy>;

}  // namespace repdl::pointwise
