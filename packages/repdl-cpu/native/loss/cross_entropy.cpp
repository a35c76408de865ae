// The cross entropy of logits and class indices, and its gradient (cross_entropy.md).
//
//   for i < rows:  (rows, C), (rows) -> (rows) -> ()
//   or the rows of images, which lie beside each other:  (N, C, inner), (N, inner) -> (N, inner) -> ()
//     e = exp(x[i, :] - max[i]), sum[i] = sum(e)
//     loss[i] = -(weight[t] * ((x[i, t] - max[i]) - log(sum[i]))) with t = target[i]
#include "base/scratch.hpp"
#include "loss/loss.hpp"
#include "repdl/exact/log.hpp"
#include "reduce/softmax.hpp"
#include "reduce/softmax_columns.hpp"

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

// max[i] and sum[i] of rows of classes.
template <class T>
void exp_of_rows(const T* x, std::int64_t rows, std::int64_t classes, const Contract& contract, T* max, T* sum) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const RowExp<T> row = exp_row(x + i * classes, classes, contract, [](auto...) {});
    max[i] = row.max;
    sum[i] = canonical(row.sum);
  }
}

// d = p * g of rows, the target's less g, +0 where the target does not count; `position` is that of the first row.
template <class T>
void gradient_of_rows(const ClassLossOf<T>& loss, const T* grad, T total, const T* x, T* d, std::int64_t position,
                      std::int64_t rows, const T* max, const T* sum) {
  const std::int64_t classes = loss.classes;
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* from = x + i * classes;
    T* to = d + i * classes;
    if (!loss.counted(position + i)) {
      std::fill(to, to + classes, T(0));
      continue;
    }
    const T m = max[i], s = sum[i], g = loss.scale(grad, total, position + i);
    gradient_row(from, to, classes, m, s, g);
    const std::int64_t t = loss.target[position + i];
    to[t] = canonical((exact::exp(from[t] - m) / s - T(1)) * g);
  }
}

// The rows of a tile of images.
template <class T>
void exp_of_images(const T* x, const Columns& at, const Contract& contract, T* max, T* sum) {
  const Scratch<T> e(at.n * at.rows);
  max_of_columns(x, at, max);
  exp_of_columns(x, at, max, e.data(), at.rows);
  sum_of_each_column(e.data(), at.n, at.rows, at.rows, contract, sum);
}

// d[c] = p[c] * g[c] of each, +0 where the target does not count.
template <class T>
void gradient_of_images(const ClassLossOf<T>& loss, const T* grad, T total, const T* x, T* d, std::int64_t position,
                        const Columns& at, const T* max, const T* sum) {
  const Scratch<T> factors(at.rows);
  T* g = factors.data();
  for (std::int64_t c = 0; c < at.rows; ++c)
    g[c] = loss.counted(position + c) ? loss.scale(grad, total, position + c) : T(0);
  for (std::int64_t i = 0; i < at.n; ++i)
    row_loop_of<T>(at.rows, [=, from = x + i * at.stride, to = d + i * at.stride](std::int64_t c, auto part) {
      using exact::exp;
      const auto p = exp(part.load(from + c) - part.load(max + c)) / part.load(sum + c);
      part.store(to + c, canonical(p * part.load(g + c)));
    });
  for (std::int64_t c = 0; c < at.rows; ++c) {
    if (!loss.counted(position + c)) {
      for (std::int64_t i = 0; i < at.n; ++i) d[i * at.stride + c] = T(0);
      continue;
    }
    const std::int64_t t = loss.target[position + c] * at.stride + c;
    d[t] = canonical((exact::exp(x[t] - max[c]) / sum[c] - T(1)) * g[c]);
  }
}

template <class T>
void cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight, std::string_view reduction,
                   std::int64_t ignore, const Contract& contract, const Tensor& output, const Tensor& total,
                   const Tensor& max_of_row, const Tensor& sum_of_row, const ExecContext& exec) {
  const ClassLossOf<T> loss =
      class_loss<T>(target, weight, class_sizes(target, input.size[1]), ignore, reduction, contract, exec);
  const T* x = input.as<T>();
  T *max = max_of_row.as<T>(), *sum = sum_of_row.as<T>();
  const std::int64_t classes = loss.classes, inner = loss.inner;
  T* const losses = losses_of(loss, output, exec);  // the logarithms of sums, before they are losses
  const auto log_p = [=, target = loss.target](std::int64_t i) {
    const std::int64_t t = (i / inner * classes + target[i]) * inner + i % inner;
    return (x[t] - max[i]) - losses[i];
  };
  const Around around{loss.n, classes, inner};
  if (fill_vectors(around)) {
    for_column_tiles(around, loss.threads, [&](std::int64_t at, std::int64_t position, const Columns& columns) {
      exp_of_images(x + at, columns, loss.contract, max + position, sum + position);
      log_of_sums(sum + position, losses + position, columns.rows);
    });
  } else if (inner > 1) {
    for_blocks(around, loss.threads, [&](std::int64_t at, std::int64_t position) {
      const Scratch<T> rows(classes * inner);
      transpose_few(x + at, classes, inner, rows.data());
      exp_of_rows(rows.data(), inner, classes, loss.contract, max + position, sum + position);
      log_of_sums(sum + position, losses + position, inner);
    });
  } else {
    parallel_for(loss.n, row_grain(classes), loss.threads, [&](std::int64_t begin, std::int64_t end) {
      exp_of_rows(x + begin * classes, end - begin, classes, loss.contract, max + begin, sum + begin);
      log_of_sums(sum + begin, losses + begin, end - begin);
    });
  }
  loss.forward(log_p, losses, output.as<T>(), total.as<T>());
}

template <class T>
void cross_entropy_backward(const Tensor& grads, const Tensor& input, const Tensor& target, const Tensor& weight,
                            const Tensor& total_weight, const Tensor& max_of_row, const Tensor& sum_of_row,
                            std::string_view reduction, std::int64_t ignore, const Contract& contract,
                            const Tensor& output, const ExecContext& exec) {
  const ClassLossOf<T> loss =
      class_loss<T>(target, weight, class_sizes(target, input.size[1]), ignore, reduction, contract, exec);
  const T *grad = grads.as<T>(), *x = input.as<T>(), *total = total_weight.as<T>();
  const T *max = max_of_row.as<T>(), *sum = sum_of_row.as<T>();
  T* out = output.as<T>();
  const std::int64_t classes = loss.classes, inner = loss.inner;
  const Around around{loss.n, classes, inner};
  if (fill_vectors(around))
    return for_column_tiles(around, loss.threads, [&](std::int64_t at, std::int64_t position, const Columns& columns) {
      gradient_of_images(loss, grad, *total, x + at, out + at, position, columns, max + position, sum + position);
    });
  if (inner > 1)
    return for_blocks(around, loss.threads, [&](std::int64_t at, std::int64_t position) {
      const Scratch<T> memory(2 * classes * inner);
      T *from = memory.data(), *to = from + classes * inner;
      transpose_few(x + at, classes, inner, from);
      gradient_of_rows(loss, grad, *total, from, to, position, inner, max + position, sum + position);
      transpose_few(to, inner, classes, out + at);
    });
  parallel_for(loss.n, row_grain(classes), loss.threads, [&](std::int64_t begin, std::int64_t end) {
    gradient_of_rows(loss, grad, *total, x + begin * classes, out + begin * classes, begin, end - begin, max + begin,
                     sum + begin);
  });
}

const AddKernel cross_entropy_kernels =
    add_kernels<&cross_entropy<float>, &cross_entropy<double>>("cross_entropy", Layout::rows);
const AddKernel cross_entropy_backward_kernels =
    add_kernels<&cross_entropy_backward<float>, &cross_entropy_backward<double>>("cross_entropy_backward",
                                                                                 Layout::rows);

}  // namespace
}  // namespace repdl::cpu
