// silu, gelu and their derivatives (activation.md).
//
//   for i:  out[i] = (x[i] * 0.5) * (1 + erf(x[i] * sqrt(1/2)))       and so on
#include "base/bind.hpp"
#include "exact/erf_vec.hpp"
#include "exact/exp_vec.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "exact/sigmoid_vec.hpp"
#include "simd/row_loop.hpp"
#include "exact/tanh_vec.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t activation_grain = 1 << 12;  // elements worth a thread

constexpr float root_half = 0x1.6a09e6p-1f;  // sqrt(1/2)
constexpr float root_2_pi = 0x1.988454p-1f;  // sqrt(2 / pi)
constexpr float density_0 = 0x1.988454p-2f;  // 1 / sqrt(2 pi)
constexpr float cubic = 0.044715f, cubic_3 = 0.134145f;

struct Silu {
  [[gnu::always_inline]] static Vec value(Vec x) { return silu(x); }
  [[gnu::always_inline]] static Vec slope(Vec x) {
    const Vec s = sigmoid(x), one = Vec::set1(1.0f);
    return s * (one + x * (one - s));
  }
};

// What the two forms of gelu share: t near -1 for very negative x, near 1 for very positive x.
inline Vec gelu_of(Vec x, Vec t) { return (x * Vec::set1(0.5f)) * (Vec::set1(1.0f) + t); }
inline Vec half_up(Vec t) { return Vec::set1(0.5f) * (Vec::set1(1.0f) + t); }

struct GeluNone {
  [[gnu::always_inline]] static Vec inner(Vec x) { return erf(x * Vec::set1(root_half)); }
  [[gnu::always_inline]] static Vec value(Vec x) { return canonical(gelu_of(x, inner(x))); }
  [[gnu::always_inline]] static Vec slope(Vec x) {
    return half_up(inner(x)) + x * (exp((x * x) * Vec::set1(-0.5f)) * Vec::set1(density_0));
  }
};

struct GeluTanh {
  [[gnu::always_inline]] static Vec inner(Vec x) {
    return tanh((x + ((x * x) * x) * Vec::set1(cubic)) * Vec::set1(root_2_pi));
  }
  [[gnu::always_inline]] static Vec value(Vec x) { return canonical(gelu_of(x, inner(x))); }
  [[gnu::always_inline]] static Vec slope(Vec x) {
    const Vec one = Vec::set1(1.0f), t = inner(x);
    const Vec u = (one + (x * x) * Vec::set1(cubic_3)) * Vec::set1(root_2_pi);
    return half_up(t) + ((x * Vec::set1(0.5f)) * (one - t * t)) * u;
  }
};

template <class A>
void bind_activation_of(py::module_& module, const std::string& forward, const std::string& backward) {
  module.def(
      forward.c_str(),
      [](Address input, Address output, std::int64_t size, int threads) {
        const auto* x = in(input);
        auto* y = out(output);
        parallel_for(size, activation_grain, threads, [=](std::int64_t begin, std::int64_t end) {
          row_loop(end - begin, [=](std::int64_t i, auto part) __attribute__((always_inline)) {
            part.store(y + begin + i, A::value(part.load(x + begin + i)));
          });
        });
      },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      backward.c_str(),
      [](Address grad, Address input, Address output, std::int64_t size, int threads) {
        const auto* g = in(grad);
        const auto* x = in(input);
        auto* y = out(output);
        parallel_for(size, activation_grain, threads, [=](std::int64_t begin, std::int64_t end) {
          row_loop(end - begin, [=](std::int64_t i, auto part) __attribute__((always_inline)) {
            const Vec slope = A::slope(part.load(x + begin + i));
            part.store(y + begin + i, canonical(part.load(g + begin + i) * slope));
          });
        });
      },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void bind_activation(py::module_& module) {
  bind_activation_of<Silu>(module, "silu", "silu_backward");
  bind_activation_of<GeluNone>(module, "gelu_none", "gelu_backward_none");
  bind_activation_of<GeluTanh>(module, "gelu_tanh", "gelu_backward_tanh");
}

}  // namespace repdl::cpu
