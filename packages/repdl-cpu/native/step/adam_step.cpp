// One step of Adam, in place: repdl/contract/adam_step.hpp for every element of every tensor.
#include "repdl/contract/adam_step.hpp"

#include "base/bind.hpp"
#include "step/tensor_lists.hpp"
#include "base/streams.hpp"

namespace repdl::cpu {
namespace {

template <AdamDecay decay, bool amsgrad, class T>
void adam(const AdamOptions& o, T* p, const T* grad, T* m, T* v, T* x, std::int64_t n) {
  REPDL_ROUTE("adam_step", static_cast<int>(decay), amsgrad, sizeof(T));
  const AdamElement<decay, amsgrad, T> element(o);
  in_streams(n, [=](std::int64_t i) { element(p[i], grad[i], m[i], v[i], amsgrad ? x + i : nullptr); });
}

// tensors: addresses of params, grads, first moments, second moments and, for AMSGrad,
// largest second moments.
template <class T>
void adam_step(const std::vector<std::vector<Address>>& tensors, const Sizes& counts, const AdamOptions& o,
               int threads) {
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
        adam<AdamDecay::none, has_largest>(o, p, grad, m, v, x, end - begin);
      else if (o.decoupled)
        adam<AdamDecay::decoupled, has_largest>(o, p, grad, m, v, x, end - begin);
      else
        adam<AdamDecay::gradient, has_largest>(o, p, grad, m, v, x, end - begin);
    });
  });
}

}  // namespace

template <class T>
void bind_adam_step(py::module_& module) {
  module.def(
      "adam_step",
      [](const std::vector<std::vector<Address>>& tensors, const Sizes& counts, double lr, double beta1, double beta2,
         double eps, double weight_decay, double bias_correction1, double bias_correction2, bool maximize,
         bool decoupled, int threads) {
        adam_step<T>(tensors, counts,
                     {lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2, maximize, decoupled},
                     threads);
      },
      py::call_guard<py::gil_scoped_release>());
}

template void bind_adam_step<float>(py::module_&);
template void bind_adam_step<double>(py::module_&);

}  // namespace repdl::cpu
