// The negative log likelihood of class indices, and its gradient (nll_loss.md).
//
//   for i < N, j < inner:  (N, C, inner), (N, inner) -> (N, inner) -> ()
//     loss[i, j] = -(weight[t] * x[i, t, j]) with t = target[i, j]
#include "loss/loss.hpp"

namespace repdl::cpu {
namespace {

template <class T>
void nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight, std::string_view reduction,
              std::int64_t ignore, const Contract& contract, const Tensor& output, const Tensor& total,
              const ExecContext& exec) {
  const ClassLossOf<T> loss =
      class_loss<T>(target, weight, class_sizes(target, input.size[1]), ignore, reduction, contract, exec);
  const T* x = input.as<T>();
  loss.forward(
      [&](std::int64_t i) { return x[(i / loss.inner * loss.classes + loss.target[i]) * loss.inner + i % loss.inner]; },
      losses_of(loss, output, exec), output.as<T>(), total.as<T>());
}

template <class T>
void nll_loss_backward(const Tensor& grads, const Tensor& target, const Tensor& weight, const Tensor& total_weight,
                       std::int64_t classes, std::string_view reduction, std::int64_t ignore, const Contract& contract,
                       const Tensor& output, const ExecContext& exec) {
  const ClassLossOf<T> loss =
      class_loss<T>(target, weight, class_sizes(target, classes), ignore, reduction, contract, exec);
  const T *grad = grads.as<T>(), *total = total_weight.as<T>();
  T* out = output.as<T>();
  const std::int64_t row = loss.classes * loss.inner;
  parallel_for(loss.n, std::max<std::int64_t>(1, (1 << 14) / (row + 1)), loss.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 std::fill(out + begin * row, out + end * row, T(0));
                 for (std::int64_t i = begin * loss.inner; i < end * loss.inner; ++i) {
                   if (!loss.counted(i)) continue;
                   T* to = out + i / loss.inner * row + i % loss.inner;
                   to[loss.target[i] * loss.inner] = canonical(-loss.scale(grad, *total, i));
                 }
               });
}

const AddKernel nll_loss_kernels = add_kernels<&nll_loss<float>, &nll_loss<double>>("nll_loss", Layout::rows);
const AddKernel nll_loss_backward_kernels =
    add_kernels<&nll_loss_backward<float>, &nll_loss_backward<double>>("nll_loss_backward", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
