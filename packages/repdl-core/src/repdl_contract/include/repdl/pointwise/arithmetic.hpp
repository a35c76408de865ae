// Sums, products and comparisons of elements (elementwise.md): one rounding each.
#pragma once

#include "repdl/pointwise/function.hpp"

namespace repdl::pointwise {

template <class T>
struct Abs : Arithmetic {
  static constexpr auto op = "abs";
  REPDL_HD T operator()(T x) const { return std::fabs(x); }
};

template <class T>
struct Add : Arithmetic {
  static constexpr auto op = "add";
  REPDL_HD T operator()(T a, T b) const { return a + b; }
};

// The same element: for ops that copy elements.
template <class T>
struct Canonical : Arithmetic {
  static constexpr auto op = "canonical";
  REPDL_HD T operator()(T x) const { return x; }
};

template <class T>
struct Div : Arithmetic {
  static constexpr auto op = "div";
  REPDL_HD T operator()(T a, T b) const { return a / b; }
};

template <class T>
struct Maximum : Arithmetic {
  static constexpr auto op = "maximum";
  REPDL_HD T operator()(T a, T b) const { return a < b || b != b ? b : a; }
};

template <class T>
struct MaximumBackward : Arithmetic {
  static constexpr auto op = "maximum_backward";
  REPDL_HD T operator()(T grad, T a, T b) const { return a < b ? T(0) : a == b ? mul(grad, T(0.5)) : grad; }
};

template <class T>
struct Minimum : Arithmetic {
  static constexpr auto op = "minimum";
  REPDL_HD T operator()(T a, T b) const { return a > b || b != b ? b : a; }
};

template <class T>
struct Mul : Arithmetic {
  static constexpr auto op = "mul";
  REPDL_HD T operator()(T a, T b) const { return mul(a, b); }
};

template <class T>
struct Neg : Arithmetic {
  static constexpr auto op = "neg";
  REPDL_HD T operator()(T x) const { return -x; }
};

template <class T>
struct Reciprocal : Arithmetic {
  static constexpr auto op = "reciprocal";
  REPDL_HD T operator()(T x) const { return T(1) / x; }
};

template <class T>
struct Relu : Arithmetic {
  static constexpr auto op = "relu";
  REPDL_HD T operator()(T x) const { return x < T(0) ? T(0) : x; }
};

template <class T>
struct ReluBackward : Arithmetic {
  static constexpr auto op = "relu_backward";
  REPDL_HD T operator()(T grad, T y) const { return y <= T(0) ? T(0) : grad; }
};

template <class T>
struct Sign : Arithmetic {
  static constexpr auto op = "sign";
  REPDL_HD T operator()(T x) const { return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0); }
};

template <class T>
struct Sqrt : Arithmetic {
  static constexpr auto op = "sqrt";
  REPDL_HD T operator()(T x) const { return std::sqrt(x); }
};

template <class T>
struct Square : Arithmetic {
  static constexpr auto op = "square";
  REPDL_HD T operator()(T x) const { return mul(x, x); }
};

template <class T>
struct Sub : Arithmetic {
  static constexpr auto op = "sub";
  REPDL_HD T operator()(T a, T b) const { return a - b; }
};

}  // namespace repdl::pointwise
