// The loss of log-probabilities of the targets, and its gradient (nll_loss.md). The sums over the
// positions follow (loss.hpp).
//
//   for i < positions:  (N, C, inner), (N, inner) -> (N, inner)
//     loss[i] = -(weight[t] * x[n, t, j]),  n, j of i, t = target[i]
#include "loss/loss.hpp"

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

template <class T>
void nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight, std::string_view reduction,
              std::int64_t ignore, const Contract& contract, const Tensor& output, const Tensor& total,
              const Run& run) {
  const Losses<T> made(target, weight, reduction, output, run);
  const auto targets = class_targets<T>(target, weight, class_sizes(target, input.size[1]), ignore);
  launch(run.op, losses_of<T>, {ceil_div(made.positions, threads)}, threads, 0, stream_of(run), input.as<T>(), targets,
         made.losses, made.weights, made.positions);
  reduce_losses(made, targets, contract, output, total, run);
}

template <class T>
void nll_loss_backward(const Tensor& grad, const Tensor& target, const Tensor& weight, const Tensor& total,
                       std::int64_t classes, std::string_view reduction, std::int64_t ignore, const Contract&,
                       const Tensor& output, const Run& run) {
  launch(run.op, loss_gradients<T>, {ceil_div(output.count(), threads)}, threads, 0, stream_of(run), grad.as<T>(),
         total.as<T>(), class_targets<T>(target, weight, class_sizes(target, classes), ignore), reduction_of(reduction),
         output.as<T>(), output.count());
}

const AddKernel nll_loss_kernels = add_kernels<&nll_loss<float>, &nll_loss<double>>("nll_loss", Layout::rows);
const AddKernel nll_loss_backward_kernels =
    add_kernels<&nll_loss_backward<float>, &nll_loss_backward<double>>("nll_loss_backward", Layout::rows);

}  // namespace
}  // namespace repdl::cuda
