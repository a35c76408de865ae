// The loss of logits of the targets, and its gradient (cross_entropy.md). The sums over the rows
// follow (loss.hpp).
//
//   for i < rows:  (rows, C), (rows) -> (rows)
//     m[i] = max(x[i, :]);  s[i] = sum(exp(x[i, :] - m[i]))
//     loss[i] = -(weight[t] * ((x[i, t] - m[i]) - log(s[i]))),  t = target[i]
//   for i < rows, c < C:  (rows, C), (rows) -> (rows, C)
//     y[i, c] = (exp(x[i, c] - m[i]) / s[i] - (c == t)) * the factor of row i
//
// A row of up to 32 blocks of v1 is kept in registers (register_rows.hpp), of floats; of others a CUDA block takes a
// row.
#include "loss/loss.hpp"
#include "reduce/register_rows.hpp"
#include "reduce/row_reduce.hpp"
#include "repdl/exact/doubles.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/log.hpp"

namespace repdl::cuda {
inline namespace cross_entropy_cu {

constexpr int most_threads = 256;  // __launch_bounds__ with two blocks: without the number ptxas spills

// Where the losses of rows are written, and the maximum and the sum that the gradient takes.
template <class T>
struct RowLosses {
  ClassTargets<T> targets;
  T *losses, *weights, *max, *sum;

  // By one thread of a row.
  __device__ void write(std::int64_t row, const T* x, T m, T s) const {
    max[row] = m;
    sum[row] = canonical(s);
    const T log_p = targets.counted(row) ? (x[targets.target[row]] - m) - exact::log(s) : T(0);
    targets.write_loss(row, log_p, losses, weights);
  }
};

template <class T, bool caches>
__global__ void __launch_bounds__(most_threads, 2) row_losses(const T* inputs, RowLosses<T> to, SumOrder order) {
  const std::int64_t row = blockIdx.x, n = to.targets.classes;
  const T* x = caches ? dynamic_shared<T>() : inputs + row * n;
  const T m = row_max<caches>(inputs + row * n, dynamic_shared<T>(), n);
  const T s = row_sum<T>(n, order, [=](std::int64_t i) { return exact::exp(x[i] - m); });
  if (threadIdx.x == 0) to.write(row, x, m, s);
}

template <class Rows>
__global__ void __launch_bounds__(Rows::threads(1), Rows::at_once(1))
    row_losses_in_registers(std::int64_t rows, int n, const float* inputs, RowLosses<float> to) {
  const RowOfThread<Rows> mine(n);
  if (mine.row >= rows) return;
  float x[Rows::elements];
  mine.load_all(mine.of(inputs), whole_pairs(n, inputs), -exact::infinity(), x);
  const float m = register_max<Rows>(x);
  const float s = register_exp_sum<false, Rows>(x, m);
  if (threadIdx.x == 0) to.write(mine.row, inputs + mine.row * n, m, s);
}

// Classes of a row from `first` on.
template <class T, int count>
struct Logits {
  Pack<T, count> x;
  std::int64_t first;
};

template <class T>
__global__ void __launch_bounds__(most_threads, 2)
    row_gradients(const T* grad, const T* inputs, ClassTargets<T> targets, const T* total, const T* max, const T* sum,
                  Reduction reduction, T* results) {
  const std::int64_t row = blockIdx.x, n = targets.classes;
  const T *x = inputs + row * n, m = max[row], s = sum[row];
  const bool counted = targets.counted(row);
  const T g = counted ? targets.scale(reduction, grad, total, row) : T(0);
  const std::int64_t target = targets.target[row];
  T* to = results + row * n;
  write_row(
      to, n, whole_packs(n, x, to),
      [=](std::int64_t c, auto width) { return Logits<T, width()>{load_pack<width()>(x + c), c}; },
      [=](int q, const auto& of) {
        const T p = exact::exp(of.x.of[q] - m) / s;
        return counted ? mul(of.first + q == target ? p - T(1) : p, g) : T(0);
      });
}

template <class T>
void cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight, std::string_view reduction,
                   std::int64_t ignore, const Contract& contract, const Tensor& output, const Tensor& total,
                   const Tensor& max, const Tensor& sum, const ExecContext& exec) {
  const Around rows = class_rows(target, input);
  const Losses<T> made(target, weight, reduction, output, exec);
  const auto targets = class_targets<T>(target, weight, rows, ignore);
  const SumOrder order(contract, rows.n);
  const RowLosses<T> to{targets, made.losses, made.weights, max.as<T>(), sum.as<T>()};
  const auto all_rows = [&] {
    if constexpr (std::is_same_v<T, float>) {
      if (in_registers(rows.n, order, 1))
        return with_register_rows<false>(rows.n, [&](auto how) {
          launch_register_rows(row_losses_in_registers<decltype(how)>, rows.outer, rows.n, exec, input.as<float>(), to);
        });
    }
    launch_rows<T>(RowKernels<decltype(&row_losses<T, true>)>{row_losses<T, true>, row_losses<T, false>}, 1, rows.outer,
                   rows.n, row_threads(rows.n, order), exec, input.as<T>(), to, order);
  };
  all_rows();
  reduce_losses(made, targets, contract, output, total, exec);
}

template <class T>
void cross_entropy_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const Tensor& weight,
                            const Tensor& total, const Tensor& max, const Tensor& sum, std::string_view reduction,
                            std::int64_t ignore, const Contract&, const Tensor& output, const ExecContext& exec) {
  const Around rows = class_rows(target, input);
  const unsigned threads = rows.n >= 1024 ? most_threads : 32;
  launch(exec.op, row_gradients<T>, {rows.outer}, threads, 0, stream_of(exec), grad.as<T>(), input.as<T>(),
         class_targets<T>(target, weight, rows, ignore), total.as<T>(), max.as<T>(), sum.as<T>(),
         reduction_of(reduction), output.as<T>());
}

const AddKernel cross_entropy_kernels =
    add_kernels<&cross_entropy<float>, &cross_entropy<double>>("cross_entropy", Layout::last);
const AddKernel cross_entropy_backward_kernels =
    add_kernels<&cross_entropy_backward<float>, &cross_entropy_backward<double>>("cross_entropy_backward",
                                                                                 Layout::last);

}  // namespace cross_entropy_cu
}  // namespace repdl::cuda
