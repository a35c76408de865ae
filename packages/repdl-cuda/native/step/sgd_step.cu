// One step of stochastic gradient descent, in place: repdl/contract/sgd_step.hpp for every
// element of every tensor.
//
//   for t in tensors, i < count[t]:
//     p[t][i] and b[t][i] from themselves and grad[t][i]
#include "repdl/contract/sgd_step.hpp"

#include "step/tensor_lists.hpp"
#include "base/ops.hpp"

namespace repdl::cuda {
namespace {

template <bool decay, SgdMomentum momentum, bool nesterov, class T>
struct SgdBody {
  static constexpr int columns = momentum == SgdMomentum::none ? 2 : 3;  // params, grads, buffers
  SgdElement<decay, momentum, nesterov, T> element;

  __device__ explicit SgdBody(const SgdOptions& options) : element(options) {}
  __device__ void operator()(const Lists<columns, T>& lists, int t, std::int64_t i) const {
    T* buffer = nullptr;
    if constexpr (columns == 3) buffer = lists.at[2][t] + i;
    element(lists.at[0][t][i], lists.at[1][t][i], buffer);
  }
};

template <bool decay, bool nesterov, class T>
void run(const std::vector<std::vector<Address>>& tensors, const Sizes& counts, const SgdOptions& o,
         const Stream& stream) {
  const auto with = [&](auto body) {
    using Body = typename decltype(body)::type;
    for_lists<Body, Body::columns, T>("sgd_step", o, tensors, counts, stream);
  };
  if (o.momentum == 0)
    with(Type<SgdBody<decay, SgdMomentum::none, false, T>>());
  else if (o.first)
    with(Type<SgdBody<decay, SgdMomentum::first, nesterov, T>>());
  else
    with(Type<SgdBody<decay, SgdMomentum::later, nesterov, T>>());
}

}  // namespace

template <class T>
void sgd_step(const std::vector<std::vector<Address>>& tensors, const Sizes& counts, double lr, double weight_decay,
              double momentum, double dampening, bool nesterov, bool maximize, bool first, const Stream& stream) {
  const SgdOptions options{lr, weight_decay, momentum, dampening, nesterov, maximize, first};
  const auto chosen = weight_decay != 0 ? (nesterov ? run<true, true, T> : run<true, false, T>)
                                        : (nesterov ? run<false, true, T> : run<false, false, T>);
  chosen(tensors, counts, options, stream);
}

template void sgd_step<float>(const std::vector<std::vector<Address>>&, const Sizes&, double, double, double, double,
                              bool, bool, bool, const Stream&);
template void sgd_step<double>(const std::vector<std::vector<Address>>&, const Sizes&, double, double, double, double,
                               bool, bool, bool, const Stream&);

}  // namespace repdl::cuda
