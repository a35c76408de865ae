// out[i] = f(input[i]) or f(input[i], other[i]), each f one rounding (elementwise.md).
//
//   for i over the broadcast shape:  (...), (...) -> (...)
//     out[i] = f(input[i], other[i])
#include "pointwise/elementwise.hpp"

#include <cmath>
#include <type_traits>

#include "exact/erf_vec.hpp"
#include "exact/exp2_vec.hpp"
#include "exact/exp_vec.hpp"
#include "exact/expm1_vec.hpp"
#include "exact/log_vec.hpp"
#include "exact/rsqrt_vec.hpp"
#include "exact/sigmoid_vec.hpp"
#include "exact/sin_vec.hpp"
#include "exact/tanh_vec.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t cheap = 1 << 15, costly = 1 << 12;  // elements worth a thread

// A correctly rounded function, of an element and of a whole Vec.
template <float (*one)(float), Vec (*all)(Vec)>
struct Exact {
  float operator()(float x) const { return one(x); }
  [[gnu::always_inline]] Vec operator()(Vec x) const { return all(x); }
};

template <class T, class F>
void bind_unary(py::module_& module, const char* name, std::int64_t grain, F f) {
  module.def(
      name,
      [f, grain](Address x, Address y, const Sizes& size, const Sizes& stride, int threads) {
        elementwise<1, T>(f, {in<T>(x)}, out<T>(y), Passes<1>(size, {stride}), grain, threads);
      },
      py::call_guard<py::gil_scoped_release>());
}

template <class T, class F>
void bind_binary(py::module_& module, const char* name, F f) {
  module.def(
      name,
      [f](Address a, Address b, Address y, const Sizes& size, const Sizes& a_stride, const Sizes& b_stride,
          int threads) {
        elementwise<2, T>(f, {in<T>(a), in<T>(b)}, out<T>(y), Passes<2>(size, {a_stride, b_stride}), cheap, threads);
      },
      py::call_guard<py::gil_scoped_release>());
}

// Correctly rounded functions, float only.
void bind_exact(py::module_& module) {
  bind_unary<float>(module, "cos", costly, Exact<exact::cos, cos>());
  bind_unary<float>(module, "erf", costly, Exact<exact::erf, erf>());
  bind_unary<float>(module, "exp", costly, Exact<exact::exp, exp>());
  bind_unary<float>(module, "exp2", costly, Exact<exact::exp2, exp2>());
  bind_unary<float>(module, "expm1", costly, Exact<exact::expm1, expm1>());
  bind_unary<float>(module, "log", costly, Exact<exact::log, log>());
  bind_unary<float>(module, "log10", costly, Exact<exact::log10, log10>());
  bind_unary<float>(module, "log1p", costly, Exact<exact::log1p, log1p>());
  bind_unary<float>(module, "log2", costly, Exact<exact::log2, log2>());
  bind_unary<float>(module, "rsqrt", costly, Exact<exact::rsqrt, rsqrt>());
  bind_unary<float>(module, "sigmoid", costly, Exact<exact::sigmoid, sigmoid>());
  bind_unary<float>(module, "sin", costly, Exact<exact::sin, sin>());
  bind_unary<float>(module, "tanh", costly, Exact<exact::tanh, tanh>());
}

}  // namespace

template <class T>
void bind_elementwise(py::module_& module) {
  bind_unary<T>(module, "abs", cheap, [](T x) { return std::fabs(x); });
  bind_unary<T>(module, "canonical", cheap, [](T x) { return x; });  // for ops that copy elements
  bind_unary<T>(module, "neg", cheap, [](T x) { return -x; });
  bind_unary<T>(module, "reciprocal", cheap, [](T x) { return T(1) / x; });
  bind_unary<T>(module, "relu", cheap, [](T x) { return x < T(0) ? T(0) : x; });
  bind_unary<T>(module, "sign", cheap, [](T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0); });
  bind_unary<T>(module, "sqrt", cheap, [](T x) { return std::sqrt(x); });
  bind_unary<T>(module, "square", cheap, [](T x) { return x * x; });
  bind_binary<T>(module, "add", [](T a, T b) { return a + b; });
  bind_binary<T>(module, "sub", [](T a, T b) { return a - b; });
  bind_binary<T>(module, "mul", [](T a, T b) { return a * b; });
  bind_binary<T>(module, "div", [](T a, T b) { return a / b; });
  bind_binary<T>(module, "maximum", [](T a, T b) { return a < b || b != b ? b : a; });
  bind_binary<T>(module, "minimum", [](T a, T b) { return a > b || b != b ? b : a; });
  bind_binary<T>(module, "relu_backward", [](T grad, T y) { return y <= T(0) ? T(0) : grad; });
  module.def(
      "maximum_backward",
      [](Address grad, Address a, Address b, Address y, const Sizes& size, const Sizes& grad_stride,
         const Sizes& a_stride, const Sizes& b_stride, int threads) {
        const auto f = [](T g, T x, T z) { return x < z ? T(0) : x == z ? g * T(0.5) : g; };
        elementwise<3, T>(f, {in<T>(grad), in<T>(a), in<T>(b)}, out<T>(y),
                          Passes<3>(size, {grad_stride, a_stride, b_stride}), cheap, threads);
      },
      py::call_guard<py::gil_scoped_release>());
  if constexpr (std::is_same_v<T, float>) bind_exact(module);
}

template void bind_elementwise<float>(py::module_&);
template void bind_elementwise<double>(py::module_&);

}  // namespace repdl::cpu
