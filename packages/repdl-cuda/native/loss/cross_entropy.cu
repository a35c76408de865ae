// The loss of logits of the targets, and its gradient (cross_entropy.md). The sums over the rows
// follow as an op of their own (nll_loss.py).
//
//   for i < rows:  (rows, C), (rows) -> (rows)
//     m[i] = max(x[i, :]);  s[i] = sum(exp(x[i, :] - m[i]))
//     loss[i] = -(weight[t] * ((x[i, t] - m[i]) - log(s[i]))),  t = target[i]
//   for i < rows, c < C:  (rows, C), (rows) -> (rows, C)
//     y[i, c] = (exp(x[i, c] - m[i]) / s[i] - (c == t)) * the factor of row i
//
// A CUDA block takes a row.
#include "loss/loss.hpp"
#include "base/ops.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/log.hpp"
#include "reduce/row_reduce.hpp"

namespace repdl::cuda {
namespace {

constexpr int most_threads = 256;

__global__ void __launch_bounds__(most_threads)
    row_losses(const float* inputs, ClassTargets<float> targets, float* losses, float* weights, float* max, float* sum,
               SumOrder order) {
  const std::int64_t row = blockIdx.x, n = targets.classes;
  const float* x = inputs + row * n;
  const float m = row_largest(x, n);
  const float s = row_sum<float>(n, order, [=](std::int64_t i) { return exact::exp(x[i] - m); });
  if (threadIdx.x != 0) return;
  max[row] = m;
  sum[row] = canonical(s);
  const float log_p = targets.counted(row) ? (x[targets.target[row]] - m) - exact::log(s) : 0.0f;
  targets.write_loss(row, log_p, losses, weights);
}

__global__ void __launch_bounds__(most_threads)
    row_gradients(const float* grad, const float* inputs, ClassTargets<float> targets, const float* total,
                  const float* max, const float* sum, Reduction reduction, float* results) {
  const std::int64_t row = blockIdx.x, n = targets.classes;
  const float *x = inputs + row * n, m = max[row], s = sum[row];
  float* y = results + row * n;
  const bool counted = targets.counted(row);
  const float g = counted ? targets.scale(reduction, grad, total, row) : 0.0f;
  for (std::int64_t c = threadIdx.x; c < n; c += blockDim.x) {
    const float p = exact::exp(x[c] - m) / s;
    y[c] = counted ? canonical(mul(c == targets.target[row] ? p - 1.0f : p, g)) : 0.0f;
  }
}

}  // namespace

void cross_entropy(Address x, Address target, Address weight, Address losses, Address weights, Address max, Address sum,
                   std::int64_t rows, std::int64_t classes, std::int64_t ignore, std::int64_t lanes, std::int64_t block,
                   const Stream& stream) {
  const SumOrder order(lanes, block, classes);
  launch("cross_entropy", row_losses, {rows}, row_threads(classes, order), 0, stream, in<float>(x),
         class_targets<float>(target, weight, {rows, classes, 1}, ignore), out<float>(losses), out<float>(weights),
         out<float>(max), out<float>(sum), order);
}

void cross_entropy_backward(Address grad, Address x, Address target, Address weight, Address total, Address max,
                            Address sum, Address y, std::int64_t rows, std::int64_t classes, std::int64_t ignore,
                            int reduction, const Stream& stream) {
  const unsigned threads = classes >= 1024 ? most_threads : 32;
  launch("cross_entropy_backward", row_gradients, {rows}, threads, 0, stream, in<float>(grad), in<float>(x),
         class_targets<float>(target, weight, {rows, classes, 1}, ignore), in<float>(total), in<float>(max),
         in<float>(sum), static_cast<Reduction>(reduction), out<float>(y));
}

}  // namespace repdl::cuda
