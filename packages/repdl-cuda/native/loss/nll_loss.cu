// The loss of log-probabilities of the targets, and its gradient (nll_loss.md). The sums follow
// as an op of their own (nll_loss.py).
//
//   for i < positions:  (N, C, inner), (N, inner) -> (N, inner)
//     loss[i] = -(weight[t] * x[n, t, j]),  n, j of i, t = target[i]
#include "loss/loss.hpp"
#include "base/ops.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256;

template <class T>
__global__ void __launch_bounds__(threads)
    losses_of(const T* x, ClassTargets<T> targets, T* losses, T* weights, std::int64_t positions) {
  const std::int64_t i = thread_index();
  if (i >= positions) return;
  const T log_p = targets.counted(i) ? x[targets.place(i, targets.target[i])] : T(0);
  targets.write_loss(i, log_p, losses, weights);
}

template <class T>
__global__ void __launch_bounds__(threads) loss_gradients(const T* grad, const T* total, ClassTargets<T> targets,
                                                          Reduction reduction, T* y, std::int64_t count) {
  const std::int64_t index = thread_index();
  if (index >= count) return;
  const std::int64_t row = index / targets.inner;  // of (N, C)
  const std::int64_t i = row / targets.classes * targets.inner + index % targets.inner;
  const bool here = targets.counted(i) && targets.target[i] == row % targets.classes;
  y[index] = here ? canonical(-targets.scale(reduction, grad, total, i)) : T(0);
}

}  // namespace

template <class T>
void nll_loss(Address x, Address target, Address weight, Address losses, Address weights, const Sizes& sizes,
              std::int64_t ignore, const Stream& stream) {
  const std::int64_t positions = sizes.at(0) * sizes.at(2);
  launch("nll_loss", losses_of<T>, {ceil_div(positions, threads)}, threads, 0, stream, in<T>(x),
         class_targets<T>(target, weight, sizes, ignore), out<T>(losses), out<T>(weights), positions);
}

template <class T>
void nll_loss_backward(Address grad, Address target, Address weight, Address total, Address y, const Sizes& sizes,
                       std::int64_t ignore, int reduction, const Stream& stream) {
  const std::int64_t count = sizes.at(0) * sizes.at(1) * sizes.at(2);
  launch("nll_loss_backward", loss_gradients<T>, {ceil_div(count, threads)}, threads, 0, stream, in<T>(grad),
         in<T>(total), class_targets<T>(target, weight, sizes, ignore), static_cast<Reduction>(reduction), out<T>(y),
         count);
}

template void nll_loss<float>(Address, Address, Address, Address, Address, const Sizes&, std::int64_t, const Stream&);
template void nll_loss<double>(Address, Address, Address, Address, Address, const Sizes&, std::int64_t, const Stream&);
template void nll_loss_backward<float>(Address, Address, Address, Address, Address, const Sizes&, std::int64_t, int,
                                       const Stream&);
template void nll_loss_backward<double>(Address, Address, Address, Address, Address, const Sizes&, std::int64_t, int,
                                        const Stream&);

}  // namespace repdl::cuda
