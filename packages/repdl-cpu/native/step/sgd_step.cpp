// One step of stochastic gradient descent, in place: repdl/contract/sgd_step.hpp for every
// element of every tensor.
#include "repdl/contract/sgd_step.hpp"

#include "base/bind.hpp"
#include "step/tensor_lists.hpp"
#include "base/streams.hpp"

namespace repdl::cpu {
namespace {

template <bool decay, SgdMomentum momentum, bool nesterov, class T>
void sgd(const SgdOptions& o, T* p, const T* grad, T* buffer, std::int64_t n) {
  REPDL_ROUTE("sgd_step", decay, static_cast<int>(momentum), nesterov, sizeof(T));
  const SgdElement<decay, momentum, nesterov, T> element(o);
  in_streams(n, [=](std::int64_t i) { element(p[i], grad[i], momentum == SgdMomentum::none ? nullptr : buffer + i); });
}

// tensors: addresses of params, of grads and, with momentum, of the buffers.
template <class T>
void sgd_step(const std::vector<std::vector<Address>>& tensors, const Sizes& counts, const SgdOptions& o, int threads) {
  constexpr std::int64_t grain = 1 << 14;
  for_elements(counts, grain, threads, [&](std::size_t t, std::int64_t begin, std::int64_t end) {
    T* p = out<T>(tensors[0][t]) + begin;
    const T* grad = in<T>(tensors[1][t]) + begin;
    T* buffer = o.momentum != 0 ? out<T>(tensors[2][t]) + begin : nullptr;
    with_option(o.weight_decay != 0, [&](auto with_decay) {
      with_option(o.nesterov, [&](auto with_nesterov) {
        constexpr bool decay = decltype(with_decay)::value, nesterov = decltype(with_nesterov)::value;
        if (!buffer)
          sgd<decay, SgdMomentum::none, false>(o, p, grad, buffer, end - begin);
        else if (o.first)
          sgd<decay, SgdMomentum::first, nesterov>(o, p, grad, buffer, end - begin);
        else
          sgd<decay, SgdMomentum::later, nesterov>(o, p, grad, buffer, end - begin);
      });
    });
  });
}

}  // namespace

template <class T>
void bind_sgd_step(py::module_& module) {
  module.def(
      "sgd_step",
      [](const std::vector<std::vector<Address>>& tensors, const Sizes& counts, double lr, double weight_decay,
         double momentum, double dampening, bool nesterov, bool maximize, bool first, int threads) {
        sgd_step<T>(tensors, counts, {lr, weight_decay, momentum, dampening, nesterov, maximize, first}, threads);
      },
      py::call_guard<py::gil_scoped_release>());
}

template void bind_sgd_step<float>(py::module_&);
template void bind_sgd_step<double>(py::module_&);

}  // namespace repdl::cpu
