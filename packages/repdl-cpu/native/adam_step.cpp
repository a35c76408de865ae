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

template <Decay decay, bool amsgrad>
void adam(const AdamOptions& o, float* p, const float* grad, float* m, float* v, float* x,
          std::int64_t n) {
  const float sign = o.maximize ? -1.0f : 1.0f, weight_decay = static_cast<float>(o.weight_decay);
  const float shrink = static_cast<float>(1.0 - o.lr * o.weight_decay);
  const float beta1 = static_cast<float>(o.beta1), share1 = static_cast<float>(1.0 - o.beta1);
  const float beta2 = static_cast<float>(o.beta2), share2 = static_cast<float>(1.0 - o.beta2);
  const float root = static_cast<float>(std::sqrt(o.bias_correction2));
  const float eps = static_cast<float>(o.eps);
  const float step = static_cast<float>(-(o.lr / o.bias_correction1));
  for (std::int64_t i = 0; i < n; ++i) {
    float weight = p[i], g = grad[i] * sign;
    if constexpr (decay == Decay::decoupled) weight *= shrink;
    if constexpr (decay == Decay::gradient) g = fma(weight_decay, weight, g);
    const float first = fma(g, share1, m[i] * beta1);
    float second = v[i] * beta2 + (g * g) * share2;
    m[i] = canonical(first);
    v[i] = canonical(second);
    if constexpr (amsgrad) {
      const float largest = x[i];
      // Not greater or equal: a NaN in x stays.
      second = !(largest <= second) && second == second ? largest : second;
      x[i] = canonical(second);
    }
    const float denominator = std::sqrt(second) / root + eps;
    p[i] = canonical(weight + (first / denominator) * step);
  }
}

// tensors: addresses of params, grads, first moments, second moments and, for AMSGrad,
// largest second moments.
void adam_step(const std::vector<std::vector<Address>>& tensors, const Sizes& counts,
               const AdamOptions& o, int threads) {
  constexpr std::int64_t grain = 1 << 13;
  for_elements(counts, grain, threads, [&](std::size_t t, std::int64_t begin, std::int64_t end) {
    const bool amsgrad = tensors.size() > 4;
    float* p = out(tensors[0][t]) + begin;
    const float* grad = in(tensors[1][t]) + begin;
    float* m = out(tensors[2][t]) + begin;
    float* v = out(tensors[3][t]) + begin;
    float* x = amsgrad ? out(tensors[4][t]) + begin : nullptr;
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

void bind_adam_step(py::module_& module) {
  module.def(
      "adam_step",
      [](const std::vector<std::vector<Address>>& tensors, const Sizes& counts, double lr, double beta1,
         double beta2, double eps, double weight_decay, double bias_correction1,
         double bias_correction2, bool maximize, bool decoupled, int threads) {
        adam_step(tensors, counts,
                  {lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2, maximize,
                   decoupled},
                  threads);
      },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace repdl::cpu
