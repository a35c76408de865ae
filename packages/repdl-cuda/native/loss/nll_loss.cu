// The loss of log-probabilities of the targets, and its gradient (nll_loss.md). The sums over the
// positions follow (loss.hpp).
//
//   for i < positions:  (N, C, inner), (N, inner) -> (N, inner)
//     loss[i] = -(weight[t] * x[n, t, j]),  n, j of i, t = target[i]
#include "base/pack.hpp"
#include "loss/loss.hpp"

namespace repdl::cuda {
inline namespace nll_loss_cu {

constexpr int threads = 256;

template <class T>
__global__ void __launch_bounds__(threads)
    losses_of(const T* x, ClassTargets<T> targets, T* losses, T* weights, std::int64_t positions) {
  const std::int64_t i = thread_index();
  if (i >= positions) return;
  const T log_p = targets.counted(i) ? x[targets.place(i, targets.target[i])] : T(0);
  targets.write_loss(i, log_p, losses, weights);
}

// Elements of (N, C, inner): the class of each, its position in (N, inner) and the target there.
template <int count>
struct Classes {
  std::int64_t of[count], position[count], target[count];
};

template <class T>
__global__ void __launch_bounds__(threads) loss_gradients(const T* grad, const T* total, ClassTargets<T> targets,
                                                          Reduction reduction, T* y, std::int64_t count) {
  with_packs<T>(whole_packs(count, y), [&](auto width) {
    each_tile_pack<width()>(
        count,
        [&](std::int64_t first) {
          Classes<width()> of;
#pragma unroll
          for (int q = 0; q < width(); ++q) {
            const std::int64_t index = first + q, row = targets.by_inner.quotient(index);  // row of (N, C)
            const std::int64_t n = targets.by_classes.quotient(row);
            of.position[q] = n * targets.inner + index - row * targets.inner;
            of.of[q] = row - n * targets.classes;
            of.target[q] = targets.target[of.position[q]];
          }
          return of;
        },
        [&](std::int64_t first, const auto& of) {
          Pack<T, width()> result;
#pragma unroll
          for (int q = 0; q < width(); ++q) {
            const bool here = targets.is_class(of.target[q]) && of.target[q] == of.of[q];
            result.of[q] = here ? canonical(-targets.scale(reduction, grad, total, of.position[q])) : T(0);
          }
          store_pack(y + first, result);
        });
  });
}

template <class T>
void nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight, std::string_view reduction,
              std::int64_t ignore, const Contract& contract, const Tensor& output, const Tensor& total,
              const ExecContext& exec) {
  const Losses<T> made(target, weight, reduction, output, exec);
  const auto targets = class_targets<T>(target, weight, class_sizes(target, input.size[1]), ignore);
  launch(exec.op, losses_of<T>, {ceil_div(made.positions, threads)}, threads, 0, stream_of(exec), input.as<T>(),
         targets, made.losses, made.weights, made.positions);
  reduce_losses(made, targets, contract, output, total, exec);
}

template <class T>
void nll_loss_backward(const Tensor& grad, const Tensor& target, const Tensor& weight, const Tensor& total,
                       std::int64_t classes, std::string_view reduction, std::int64_t ignore, const Contract&,
                       const Tensor& output, const ExecContext& exec) {
  launch(exec.op, loss_gradients<T>, {ceil_div(output.count(), tile_of(threads))}, threads, 0, stream_of(exec),
         grad.as<T>(), total.as<T>(), class_targets<T>(target, weight, class_sizes(target, classes), ignore),
         reduction_of(reduction), output.as<T>(), output.count());
}

const AddKernel nll_loss_kernels = add_kernels<&nll_loss<float>, &nll_loss<double>>("nll_loss", Layout::rows);
const AddKernel nll_loss_backward_kernels =
    add_kernels<&nll_loss_backward<float>, &nll_loss_backward<double>>("nll_loss_backward", Layout::rows);

}  // namespace nll_loss_cu
}  // namespace repdl::cuda
