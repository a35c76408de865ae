// The loss of logits of the targets, and its gradient (cross_entropy.md). The sums over the rows
// follow (loss.hpp).
//
//   for i < rows:  (rows, C), (rows) -> (rows)
//     m[i] = max(x[i, :]);  s[i] = sum(exp(x[i, :] - m[i]))
//     loss[i] = -(weight[t] * ((x[i, t] - m[i]) - log(s[i]))),  t = target[i]
//   for i < rows, c < C:  (rows, C), (rows) -> (rows, C)
//     y[i, c] = (exp(x[i, c] - m[i]) / s[i] - (c == t)) * the factor of row i
//
// A row of up to 32 blocks of v1 is kept in registers (register_rows.hpp); of others a CUDA block takes a row.
#include "loss/loss.hpp"
#include "reduce/register_rows.hpp"
#include "reduce/row_reduce.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/log.hpp"

namespace repdl::cuda {
namespace {

constexpr int most_threads = 256;  // __launch_bounds__ with two blocks: without the number ptxas spills

// Where the losses of rows are written, and the maximum and the sum that the gradient takes.
struct RowLosses {
  ClassTargets<float> targets;
  float *losses, *weights, *max, *sum;

  // By one thread of a row.
  __device__ void write(std::int64_t row, const float* x, float m, float s) const {
    max[row] = m;
    sum[row] = canonical(s);
    const float log_p = targets.counted(row) ? (x[targets.target[row]] - m) - exact::log(s) : 0.0f;
    targets.write_loss(row, log_p, losses, weights);
  }
};

template <bool caches>
__global__ void __launch_bounds__(most_threads, 2) row_losses(const float* inputs, RowLosses to, SumOrder order) {
  const std::int64_t row = blockIdx.x, n = to.targets.classes;
  const float* x = caches ? dynamic_shared<float>() : inputs + row * n;
  const float m = row_max<caches>(inputs + row * n, dynamic_shared<float>(), n);
  const float s = row_sum<float>(n, order, [=](std::int64_t i) { return exact::exp(x[i] - m); });
  if (threadIdx.x == 0) to.write(row, x, m, s);
}

template <class Rows>
__global__ void __launch_bounds__(Rows::threads(1), Rows::at_once(1))
    row_losses_in_registers(std::int64_t rows, int n, const float* inputs, RowLosses to) {
  const RowOfThread<Rows> mine(n);
  if (mine.row >= rows) return;
  float x[Rows::elements];
  mine.load_all(mine.of(inputs), whole_pairs(n, inputs), -exact::infinity(), x);
  const float m = register_max<Rows>(x);
  const float s = register_exp_sum<false, Rows>(x, m);
  if (threadIdx.x == 0) to.write(mine.row, inputs + mine.row * n, m, s);
}

// Classes of a row from `first` on.
template <int count>
struct Logits {
  Pack<float, count> x;
  std::int64_t first;
};

__global__ void __launch_bounds__(most_threads, 2)
    row_gradients(const float* grad, const float* inputs, ClassTargets<float> targets, const float* total,
                  const float* max, const float* sum, Reduction reduction, float* results) {
  const std::int64_t row = blockIdx.x, n = targets.classes;
  const float *x = inputs + row * n, m = max[row], s = sum[row];
  const bool counted = targets.counted(row);
  const float g = counted ? targets.scale(reduction, grad, total, row) : 0.0f;
  const std::int64_t target = targets.target[row];
  float* to = results + row * n;
  write_row(
      to, n, whole_packs(n, x, to),
      [=](std::int64_t c, auto width) { return Logits<width()>{load_pack<width()>(x + c), c}; },
      [=](int q, const auto& of) {
        const float p = exact::exp(of.x.of[q] - m) / s;
        return counted ? mul(of.first + q == target ? p - 1.0f : p, g) : 0.0f;
      });
}

void cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight, std::string_view reduction,
                   std::int64_t ignore, const Contract& contract, const Tensor& output, const Tensor& total,
                   const Tensor& max, const Tensor& sum, const ExecContext& exec) {
  const Around rows = class_rows(target, input);
  const Losses<float> made(target, weight, reduction, output, exec);
  const auto targets = class_targets<float>(target, weight, rows, ignore);
  const SumOrder order(contract, rows.n);
  const RowLosses to{targets, made.losses, made.weights, max.as<float>(), sum.as<float>()};
  if (in_registers(rows.n, order, 1))
    with_register_rows<false>(rows.n, [&](auto how) {
      launch_register_rows(row_losses_in_registers<decltype(how)>, rows.outer, rows.n, exec, input.as<float>(), to);
    });
  else
    launch_rows<float>(RowKernels<decltype(&row_losses<true>)>{row_losses<true>, row_losses<false>}, 1, rows.outer,
                       rows.n, row_threads(rows.n, order), exec, input.as<float>(), to, order);
  reduce_losses(made, targets, contract, output, total, exec);
}

void cross_entropy_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const Tensor& weight,
                            const Tensor& total, const Tensor& max, const Tensor& sum, std::string_view reduction,
                            std::int64_t ignore, const Contract&, const Tensor& output, const ExecContext& exec) {
  const Around rows = class_rows(target, input);
  const unsigned threads = rows.n >= 1024 ? most_threads : 32;
  launch(exec.op, row_gradients, {rows.outer}, threads, 0, stream_of(exec), grad.as<float>(), input.as<float>(),
         class_targets<float>(target, weight, rows, ignore), total.as<float>(), max.as<float>(), sum.as<float>(),
         reduction_of(reduction), output.as<float>());
}

const AddKernel cross_entropy_kernel = add_kernel<&cross_entropy>("cross_entropy", DType::float32, Layout::last);
const AddKernel cross_entropy_backward_kernel =
    add_kernel<&cross_entropy_backward>("cross_entropy_backward", DType::float32, Layout::last);

}  // namespace
}  // namespace repdl::cuda
