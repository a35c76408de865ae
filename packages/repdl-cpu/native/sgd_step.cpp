// One step of stochastic gradient descent, in place, with momentum buffer b:
//
//   for i < numel:
//     g = grad[i]                     (times -1, which is exact, to maximize)
//     g = fma(weight_decay, p[i], g)  (if weight_decay is not 0)
//     b[i] = first ? g : fma(g, 1 - dampening, b[i] * momentum)
//     g = nesterov ? fma(b[i], momentum, g) : b[i]
//     p[i] = fma(g, -lr, p[i])
#include "bind.hpp"
#include "elements.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cpu {
namespace {

// The hyperparameters as they come: each is rounded to float once, where it is used.
struct SgdOptions {
  double lr, weight_decay, momentum, dampening;
  bool nesterov, maximize, first;
};

template <bool decay, class T>
void sgd_plain(const SgdOptions& o, T* p, const T* grad, std::int64_t n) {
  const T sign = o.maximize ? -T(1) : T(1), weight_decay = static_cast<T>(o.weight_decay);
  const T step = static_cast<T>(-o.lr);
  for (std::int64_t i = 0; i < n; ++i) {
    T g = grad[i] * sign;
    if constexpr (decay) g = fma(weight_decay, p[i], g);
    p[i] = canonical(fma(g, step, p[i]));
  }
}

template <bool decay, bool first, bool nesterov, class T>
void sgd_momentum(const SgdOptions& o, T* p, const T* grad, T* buffer, std::int64_t n) {
  const T sign = o.maximize ? -T(1) : T(1), weight_decay = static_cast<T>(o.weight_decay);
  const T momentum = static_cast<T>(o.momentum), share = static_cast<T>(1.0 - o.dampening);
  const T step = static_cast<T>(-o.lr);
  for (std::int64_t i = 0; i < n; ++i) {
    T g = grad[i] * sign;
    if constexpr (decay) g = fma(weight_decay, p[i], g);
    T b = g;
    if constexpr (!first) b = fma(g, share, buffer[i] * momentum);
    buffer[i] = canonical(b);
    g = nesterov ? fma(b, momentum, g) : b;
    p[i] = canonical(fma(g, step, p[i]));
  }
}

// tensors: addresses of params, of grads and, with momentum, of the buffers.
template <class T>
void sgd_step(const std::vector<std::vector<Address>>& tensors, const Sizes& counts,
              const SgdOptions& o, int threads) {
  constexpr std::int64_t grain = 1 << 14;
  const bool momentum = o.momentum != 0;
  for_elements(counts, grain, threads, [&](std::size_t t, std::int64_t begin, std::int64_t end) {
    T* p = out<T>(tensors[0][t]) + begin;
    const T* grad = in<T>(tensors[1][t]) + begin;
    with_option(o.weight_decay != 0, [&](auto decay) {
      if (!momentum) return sgd_plain<decltype(decay)::value>(o, p, grad, end - begin);
      T* buffer = out<T>(tensors[2][t]) + begin;
      with_option(o.first, [&](auto first) {
        with_option(o.nesterov, [&](auto nesterov) {
          sgd_momentum<decltype(decay)::value, decltype(first)::value, decltype(nesterov)::value>(
              o, p, grad, buffer, end - begin);
        });
      });
    });
  });
}

}  // namespace

template <class T>
void bind_sgd_step(py::module_& module) {
  module.def(
      "sgd_step",
      [](const std::vector<std::vector<Address>>& tensors, const Sizes& counts, double lr,
         double weight_decay, double momentum, double dampening, bool nesterov, bool maximize,
         bool first, int threads) {
        sgd_step<T>(tensors, counts, {lr, weight_decay, momentum, dampening, nesterov, maximize, first},
                 threads);
      },
      py::call_guard<py::gil_scoped_release>());
}

template void bind_sgd_step<float>(py::module_&);
template void bind_sgd_step<double>(py::module_&);

}  // namespace repdl::cpu
