// One step of Adam, in place: repdl/contract/adam_step.hpp for every element of every tensor.
//
//   for t in tensors, i < count[t]:
//     p[t][i], m[t][i], v[t][i] and x[t][i] from themselves and grad[t][i]
#include "repdl/contract/adam_step.hpp"

#include "step/tensor_lists.hpp"
#include "base/ops.hpp"

namespace repdl::cuda {
namespace {

template <AdamDecay decay, bool amsgrad, class T>
struct AdamBody {
  static constexpr int columns = amsgrad ? 5 : 4;  // params, grads, moments, second moments, the largest of those
  AdamElement<decay, amsgrad, T> element;

  __device__ explicit AdamBody(const AdamOptions& options) : element(options) {}
  __device__ void operator()(const Lists<columns, T>& lists, int t, std::int64_t i) const {
    T* largest = nullptr;
    if constexpr (amsgrad) largest = lists.at[4][t] + i;
    element(lists.at[0][t][i], lists.at[1][t][i], lists.at[2][t][i], lists.at[3][t][i], largest);
  }
};

template <bool amsgrad, class T>
void run(const std::vector<std::vector<Address>>& tensors, const Sizes& counts, const AdamOptions& o,
         const Stream& stream) {
  const auto with = [&](auto body) {
    using Body = typename decltype(body)::type;
    for_lists<Body, Body::columns, T>("adam_step", o, tensors, counts, stream);
  };
  if (o.weight_decay == 0)
    with(Type<AdamBody<AdamDecay::none, amsgrad, T>>());
  else if (o.decoupled)
    with(Type<AdamBody<AdamDecay::decoupled, amsgrad, T>>());
  else
    with(Type<AdamBody<AdamDecay::gradient, amsgrad, T>>());
}

}  // namespace

template <class T>
void adam_step(const std::vector<std::vector<Address>>& tensors, const Sizes& counts, double lr, double beta1,
               double beta2, double eps, double weight_decay, double bias_correction1, double bias_correction2,
               bool maximize, bool decoupled, const Stream& stream) {
  const AdamOptions options{lr,       beta1,    beta2, eps, weight_decay, bias_correction1, bias_correction2,
                            maximize, decoupled};
  if (tensors.size() > 4)
    run<true, T>(tensors, counts, options, stream);
  else
    run<false, T>(tensors, counts, options, stream);
}

template void adam_step<float>(const std::vector<std::vector<Address>>&, const Sizes&, double, double, double, double,
                               double, double, double, bool, bool, const Stream&);
template void adam_step<double>(const std::vector<std::vector<Address>>&, const Sizes&, double, double, double, double,
                                double, double, double, bool, bool, const Stream&);

}  // namespace repdl::cuda
