// silu, gelu and their derivatives (activation.md): the exact function of a block, then the rest.
//
//   for i:  out[i] = (x[i] * 0.5) * (1 + erf(x[i] * sqrt(1/2)))       and so on
#include <algorithm>

#include "bind.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/exact/erf.hpp"
#include "repdl/exact/tanh.hpp"
#include "sigmoid_vec.hpp"
#include "sweep.hpp"
#include "threads.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t activation_grain = 1 << 12;  // elements worth a thread
constexpr std::int64_t activation_block = 256;

constexpr float root_half = 0x1.6a09e6p-1f;   // sqrt(1/2)
constexpr float root_2_pi = 0x1.988454p-1f;   // sqrt(2 / pi)
constexpr float density_0 = 0x1.988454p-2f;   // 1 / sqrt(2 pi)
constexpr float cubic = 0.044715f, cubic_3 = 0.134145f;

// y[i] = f(x[i]) for a block: the loop that the compiler vectorises.
template <class F>
void each(const F& f, const float* __restrict x, float* __restrict y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

struct Silu {
  static void inner(const float* x, float* s, std::int64_t n) {
    sweep(n, [=](std::int64_t i, auto part) { part.store(s + i, sigmoid(part.load(x + i))); });
  }
  static float value(float x, float s) { return x * s; }
  static float slope(float x, float s) { return s * (1.0f + x * (1.0f - s)); }
};

struct GeluNone {
  static void inner(const float* x, float* t, std::int64_t n) {
    each([](float v) { return exact::erf(v * root_half); }, x, t, n);
  }
  static float value(float x, float t) { return (x * 0.5f) * (1.0f + t); }
  static float slope(float x, float t) {
    return 0.5f * (1.0f + t) + x * (exact::exp((x * x) * -0.5f) * density_0);
  }
};

struct GeluTanh {
  static void inner(const float* x, float* t, std::int64_t n) {
    each([](float v) { return exact::tanh((v + ((v * v) * v) * cubic) * root_2_pi); }, x, t, n);
  }
  static float value(float x, float t) { return (x * 0.5f) * (1.0f + t); }
  static float slope(float x, float t) {
    return 0.5f * (1.0f + t) + ((x * 0.5f) * (1.0f - t * t)) * ((1.0f + (x * x) * cubic_3) * root_2_pi);
  }
};

template <class Blocks>
void by_blocks(std::int64_t n, int threads, const Blocks& blocks) {
  parallel_for(n, activation_grain, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += activation_block) blocks(i, std::min(activation_block, end - i));
  });
}

template <class A>
void bind_activation_of(py::module_& module, const std::string& forward, const std::string& backward) {
  module.def(
      forward.c_str(),
      [](Address input, Address output, std::int64_t size, int threads) {
        const auto* x = in(input);
        auto* y = out(output);
        by_blocks(size, threads, [=](std::int64_t first, std::int64_t n) {
          float t[activation_block];
          A::inner(x + first, t, n);
          for (std::int64_t i = 0; i < n; ++i) y[first + i] = canonical(A::value(x[first + i], t[i]));
        });
      },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      backward.c_str(),
      [](Address grad, Address input, Address output, std::int64_t size, int threads) {
        const auto* g = in(grad);
        const auto* x = in(input);
        auto* y = out(output);
        by_blocks(size, threads, [=](std::int64_t first, std::int64_t n) {
          float t[activation_block];
          A::inner(x + first, t, n);
          for (std::int64_t i = 0; i < n; ++i)
            y[first + i] = canonical(g[first + i] * A::slope(x[first + i], t[i]));
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
