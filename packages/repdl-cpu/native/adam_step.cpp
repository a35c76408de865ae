// One step of Adam, in place, with moments m and v and, for AMSGrad, the largest v in x:
//
//   for i < numel:
//     g = grad[i]                              (times -1, which is exact, to maximize)
//     p[i] *= 1 - lr * weight_decay            (decoupled), or g = fma(weight_decay, p[i], g)
//     m[i] = fma(g, 1 - beta1, m[i] * beta1)
//     v[i] = v[i] * beta2 + (g * g) * (1 - beta2)
//     d = sqrt(max(x[i], v[i])) / sqrt(bias_correction2) + eps
//     p[i] = p[i] + (m[i] / d) * -(lr / bias_correction1)
#include <cmath>

#include "bind.hpp"
#include "elements.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cpu {
namespace {

// The hyperparameters as they come: doubles until each is rounded to float once.
struct AdamOptions {
  double lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2;
  bool maximize, decoupled;
};

enum class Decay { none, gradient, decoupled };

template <Decay decay, bool amsgrad, class T>
void adam(const AdamOptions& o, T* p, const T* grad, T* m, T* v, T* x,
          std::int64_t n) {
  const T sign = o.maximize ? -T(1) : T(1), weight_decay = static_cast<T>(o.weight_decay);
  const T shrink = static_cast<T>(1.0 - o.lr * o.weight_decay);
  const T beta1 = static_cast<T>(o.beta1), share1 = static_cast<T>(1.0 - o.beta1);
  const T beta2 = static_cast<T>(o.beta2), share2 = static_cast<T>(1.0 - o.beta2);
  const T root = static_cast<T>(std::sqrt(o.bias_correction2));
  const T eps = static_cast<T>(o.eps);
  const T step = static_cast<T>(-(o.lr / o.bias_correction1));
  for (std::int64_t i = 0; i < n; ++i) {
    T weight = p[i], g = grad[i] * sign;
    if constexpr (decay == Decay::decoupled) weight *= shrink;
    if constexpr (decay == Decay::gradient) g = fma(weight_decay, weight, g);
    const T first = fma(g, share1, m[i] * beta1);
    T second = v[i] * beta2 + (g * g) * share2;
    m[i] = canonical(first);
    v[i] = canonical(second);
    if constexpr (amsgrad) {
      const T largest = x[i];
      // Not greater or equal: a NaN in x stays.
      second = !(largest <= second) && second == second ? largest : second;
      x[i] = canonical(second);
    }
    const T denominator = std::sqrt(second) / root + eps;
    p[i] = canonical(weight + (first / denominator) * step);
  }
}

// tensors: addresses of params, grads, first moments, second moments and, for AMSGrad,
// largest second moments.
template <class T>
void adam_step(const std::vector<std::vector<Address>>& tensors, const Sizes& counts,
               const AdamOptions& o, int threads) {
  constexpr std::int64_t grain = 1 << 13;
  for_elements(counts, grain, threads, [&](std::size_t t, std::int64_t begin, std::int64_t end) {
    const bool amsgrad = tensors.size() > 4;
    T* p = out<T>(tensors[0][t]) + begin;
    const T* grad = in<T>(tensors[1][t]) + begin;
    T* m = out<T>(tensors[2][t]) + begin;
    T* v = out<T>(tensors[3][t]) + begin;
    T* x = amsgrad ? out<T>(tensors[4][t]) + begin : nullptr;
    with_option(amsgrad, [&](auto largest) {
      constexpr bool has_largest = decltype(largest)::value;
      if (o.weight_decay == 0)
        adam<Decay::none, has_largest>(o, p, grad, m, v, x, end - begin);
      else if (o.decoupled)
        adam<Decay::decoupled, has_largest>(o, p, grad, m, v, x, end - begin);
      else
        adam<Decay::gradient, has_largest>(o, p, grad, m, v, x, end - begin);
    });
  });
}

}  // namespace

template <class T>
void bind_adam_step(py::module_& module) {
  module.def(
      "adam_step",
      [](const std::vector<std::vector<Address>>& tensors, const Sizes& counts, double lr, double beta1,
         double beta2, double eps, double weight_decay, double bias_correction1,
         double bias_correction2, bool maximize, bool decoupled, int threads) {
        adam_step<T>(tensors, counts,
                  {lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2, maximize,
                   decoupled},
                  threads);
      },
      py::call_guard<py::gil_scoped_release>());
}

template void bind_adam_step<float>(py::module_&);
template void bind_adam_step<double>(py::module_&);

}  // namespace repdl::cpu
