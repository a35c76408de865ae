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

void cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight, std::string_view reduction,
                   std::int64_t ignore, const Contract& contract, const Tensor& output, const Tensor& total,
                   const Tensor& max_of_row, const Tensor& sum_of_row, const ExecContext& exec) {
  const ClassLossOf<float> loss =
      class_loss<float>(target, weight, class_rows(target, input), ignore, reduction, contract, exec);
  const float* x = input.as<float>();
  float *max = max_of_row.as<float>(), *sum = sum_of_row.as<float>();
  const std::int64_t classes = loss.classes;
  parallel_for(loss.n, row_grain(classes), loss.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const RowExp row = exp_row(x + i * classes, classes, loss.contract, [](std::int64_t, auto, Vec) {});
      max[i] = row.max;
      sum[i] = canonical(row.sum);
    }
  });
  loss.forward([&](std::int64_t i) { return (x[i * classes + loss.target[i]] - max[i]) - exact::log(sum[i]); },
               losses_of(loss, output, exec), output.as<float>(), total.as<float>());
}

void cross_entropy_backward(const Tensor& grads, const Tensor& input, const Tensor& target, const Tensor& weight,
                            const Tensor& total_weight, const Tensor& max_of_row, const Tensor& sum_of_row,
                            std::string_view reduction, std::int64_t ignore, const Contract& contract,
                            const Tensor& output, const ExecContext& exec) {
  const ClassLossOf<float> loss =
      class_loss<float>(target, weight, class_rows(target, input), ignore, reduction, contract, exec);
  const float *grad = grads.as<float>(), *x = input.as<float>(), *total = total_weight.as<float>();
  const float *max = max_of_row.as<float>(), *sum = sum_of_row.as<float>();
  float* out = output.as<float>();
  const std::int64_t classes = loss.classes;
  parallel_for(loss.n, row_grain(classes), loss.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* to = out + i * classes;
      if (!loss.counted(i)) {
        std::fill(to, to + classes, 0.0f);
        continue;
      }
      const float* from = x + i * classes;
      const float m = max[i], s = sum[i], g = loss.scale(grad, *total, i);
      row_loop(classes, [=](std::int64_t c, auto part) {
        const Vec p = exp(part.load(from + c) - Vec::set1(m)) / Vec::set1(s);
        part.store(to + c, canonical(p * Vec::set1(g)));
      });
      const std::int64_t t = loss.target[i];
      to[t] = canonical((exact::exp(from[t] - m) / s - 1.0f) * g);
    }
  });
}

const AddKernel cross_entropy_kernel = add_kernel<&cross_entropy>("cross_entropy", DType::float32, Layout::last);
const AddKernel cross_entropy_backward_kernel =
    add_kernel<&cross_entropy_backward>("cross_entropy_backward", DType::float32, Layout::last);

}  // namespace
}  // namespace repdl::cpu
