// The cross entropy of logits and class indices, and its gradient (cross_entropy.md).
//
//   for i < rows:  (rows, C), (rows) -> (rows) -> ()
//     e = exp(x[i, :] - max[i]), sum[i] = sum(e)
//     loss[i] = -(weight[t] * ((x[i, t] - max[i]) - log(sum[i]))) with t = target[i]
#include "loss/loss.hpp"
#include "repdl/exact/log.hpp"
#include "reduce/softmax.hpp"

namespace repdl::cpu {
namespace {

// d[c] = p[c] * g, p[c] = exp(x[c] - max) / sum.
void gradient_row(const float* x, float* d, std::int64_t classes, float max, float sum, float g) {
  row_loop(classes, [=](std::int64_t c, auto part) {
    const Vec p = exp(part.load(x + c) - Vec::set1(max)) / Vec::set1(sum);
    part.store(d + c, canonical(p * Vec::set1(g)));
  });
}
void gradient_row(const double* x, double* d, std::int64_t classes, double max, double sum, double g) {
  row_loop_double(classes, [=](std::int64_t c, auto part) {
    using exact::exp;
    const auto p = exp(part.load(x + c) - part.set1(max)) / part.set1(sum);
    part.store(d + c, canonical(p * part.set1(g)));
  });
}

template <class T>
void cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight, std::string_view reduction,
                   std::int64_t ignore, const Contract& contract, const Tensor& output, const Tensor& total,
                   const Tensor& max_of_row, const Tensor& sum_of_row, const ExecContext& exec) {
  const ClassLossOf<T> loss =
      class_loss<T>(target, weight, class_rows(target, input), ignore, reduction, contract, exec);
  const T* x = input.as<T>();
  T *max = max_of_row.as<T>(), *sum = sum_of_row.as<T>();
  const std::int64_t classes = loss.classes;
  parallel_for(loss.n, row_grain(classes), loss.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const RowExp<T> row = exp_row(x + i * classes, classes, loss.contract, [](auto...) {});
      max[i] = row.max;
      sum[i] = canonical(row.sum);
    }
  });
  loss.forward([&](std::int64_t i) { return (x[i * classes + loss.target[i]] - max[i]) - exact::log(sum[i]); },
               losses_of(loss, output, exec), output.as<T>(), total.as<T>());
}

template <class T>
void cross_entropy_backward(const Tensor& grads, const Tensor& input, const Tensor& target, const Tensor& weight,
                            const Tensor& total_weight, const Tensor& max_of_row, const Tensor& sum_of_row,
                            std::string_view reduction, std::int64_t ignore, const Contract& contract,
                            const Tensor& output, const ExecContext& exec) {
  const ClassLossOf<T> loss =
      class_loss<T>(target, weight, class_rows(target, input), ignore, reduction, contract, exec);
  const T *grad = grads.as<T>(), *x = input.as<T>(), *total = total_weight.as<T>();
  const T *max = max_of_row.as<T>(), *sum = sum_of_row.as<T>();
  T* out = output.as<T>();
  const std::int64_t classes = loss.classes;
  parallel_for(loss.n, row_grain(classes), loss.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* to = out + i * classes;
      if (!loss.counted(i)) {
        std::fill(to, to + classes, T(0));
        continue;
      }
      const T* from = x + i * classes;
      const T m = max[i], s = sum[i], g = loss.scale(grad, *total, i);
      gradient_row(from, to, classes, m, s, g);
      const std::int64_t t = loss.target[i];
      to[t] = canonical((exact::exp(from[t] - m) / s - T(1)) * g);
    }
  });
}

const AddKernel cross_entropy_kernels =
    add_kernels<&cross_entropy<float>, &cross_entropy<double>>("cross_entropy", Layout::last);
const AddKernel cross_entropy_backward_kernels =
    add_kernels<&cross_entropy_backward<float>, &cross_entropy_backward<double>>("cross_entropy_backward",
                                                                                 Layout::last);

}  // namespace
}  // namespace repdl::cpu
