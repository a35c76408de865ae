// out[i] = f(input[i]) or f(input[i], other[i]), each f one rounding (elementwise.md).
//
//   for i over the broadcast shape:  (...), (...) -> (...)
//     out[i] = f(input[i], other[i])
#include "elementwise.hpp"

#include <cmath>

#include "repdl/exact/cos.hpp"
#include "repdl/exact/erf.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/exp2.hpp"
#include "repdl/exact/expm1.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/exact/log10.hpp"
#include "repdl/exact/log1p.hpp"
#include "repdl/exact/log2.hpp"
#include "repdl/exact/rsqrt.hpp"
#include "repdl/exact/sigmoid.hpp"
#include "repdl/exact/sin.hpp"
#include "repdl/exact/tanh.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t cheap = 1 << 15, costly = 1 << 12;  // elements worth a thread

template <class F>
void bind_unary(py::module_& module, const char* name, std::int64_t grain, F f) {
  module.def(
      name,
      [f, grain](Address x, Address y, const Sizes& size, const Sizes& stride, int threads) {
        elementwise<1>(f, {in(x)}, out(y), Passes<1>(size, {stride}), grain, threads);
      },
      py::call_guard<py::gil_scoped_release>());
}

template <class F>
void bind_binary(py::module_& module, const char* name, F f) {
  module.def(
      name,
      [f](Address a, Address b, Address y, const Sizes& size, const Sizes& a_stride, const Sizes& b_stride,
          int threads) {
        elementwise<2>(f, {in(a), in(b)}, out(y), Passes<2>(size, {a_stride, b_stride}), cheap, threads);
      },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void bind_elementwise(py::module_& module) {
  bind_unary(module, "abs", cheap, [](float x) { return std::fabs(x); });
  bind_unary(module, "canonical", cheap, [](float x) { return x; });  // for ops that copy elements
  bind_unary(module, "cos", costly, exact::Cos());
  bind_unary(module, "erf", costly, [](float x) { return exact::erf(x); });
  bind_unary(module, "exp", costly, [](float x) { return exact::exp(x); });
  bind_unary(module, "exp2", costly, [](float x) { return exact::exp2(x); });
  bind_unary(module, "expm1", costly, [](float x) { return exact::expm1(x); });
  bind_unary(module, "log", costly, [](float x) { return exact::log(x); });
  bind_unary(module, "log10", costly, [](float x) { return exact::log10(x); });
  bind_unary(module, "log1p", costly, [](float x) { return exact::log1p(x); });
  bind_unary(module, "log2", costly, [](float x) { return exact::log2(x); });
  bind_unary(module, "neg", cheap, [](float x) { return -x; });
  bind_unary(module, "reciprocal", cheap, [](float x) { return 1.0f / x; });
  bind_unary(module, "relu", cheap, [](float x) { return x < 0.0f ? 0.0f : x; });
  bind_unary(module, "rsqrt", costly, [](float x) { return exact::rsqrt(x); });
  bind_unary(module, "sigmoid", costly, [](float x) { return exact::sigmoid(x); });
  bind_unary(module, "sign", cheap, [](float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; });
  bind_unary(module, "sin", costly, exact::Sin());
  bind_unary(module, "sqrt", cheap, [](float x) { return std::sqrt(x); });
  bind_unary(module, "square", cheap, [](float x) { return x * x; });
  bind_unary(module, "tanh", costly, [](float x) { return exact::tanh(x); });
  bind_binary(module, "add", [](float a, float b) { return a + b; });
  bind_binary(module, "sub", [](float a, float b) { return a - b; });
  bind_binary(module, "mul", [](float a, float b) { return a * b; });
  bind_binary(module, "div", [](float a, float b) { return a / b; });
  bind_binary(module, "maximum", [](float a, float b) { return a < b || b != b ? b : a; });
  bind_binary(module, "minimum", [](float a, float b) { return a > b || b != b ? b : a; });
  bind_binary(module, "relu_backward", [](float grad, float y) { return y <= 0.0f ? 0.0f : grad; });
  module.def(
      "maximum_backward",
      [](Address grad, Address a, Address b, Address y, const Sizes& size, const Sizes& grad_stride,
         const Sizes& a_stride, const Sizes& b_stride, int threads) {
        const auto f = [](float g, float x, float z) { return x < z ? 0.0f : x == z ? g * 0.5f : g; };
        elementwise<3>(f, {in(grad), in(a), in(b)}, out(y), Passes<3>(size, {grad_stride, a_stride, b_stride}),
                       cheap, threads);
      },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace repdl::cpu
