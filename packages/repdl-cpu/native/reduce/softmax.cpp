// softmax, log_softmax and their backwards, row by row (softmax.md).
//
//   for i < rows:  (rows, n) -> (rows, n)
//     e = exp(x[i, :] - max(x[i, :]))
//     y[i, :] = e / sum(e)
#include "reduce/softmax.hpp"

#include "base/scratch.hpp"
#include "base/threads.hpp"
#include "reduce/softmax_columns.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/shape/around.hpp"

namespace repdl::cpu {
namespace {

// Rows along a dimension; a number is a row of one.
Around rows_along(const Tensor& tensor, std::int64_t dim) {
  return tensor.dims == 0 ? Around{1, 1, 1} : around(tensor, dim);
}

// Each works on one row, and prefetches the row `ahead` elements further.

void softmax(const float* x, float* y, std::int64_t n, const Contract& contract, std::int64_t ahead) {
  const float s = exp_row(x, n, contract, [y](std::int64_t i, auto part, Vec e) { part.store(y + i, e); }).sum;
  row_loop(n, [=](std::int64_t i, auto part) {
    prefetch(x + i, ahead);
    part.store(y + i, canonical(part.load(y + i) / Vec::set1(s)));
  });
}

void log_softmax_from(const float* x, float* y, std::int64_t n, float max, float log_sum, std::int64_t ahead) {
  row_loop(n, [=](std::int64_t i, auto part) {
    prefetch(x + i, ahead);
    part.store(y + i, canonical((part.load(x + i) - Vec::set1(max)) - Vec::set1(log_sum)));
  });
}

void softmax_backward(const float* grad, const float* y, float* out, std::int64_t n, const Contract& contract,
                      std::int64_t ahead) {
  const float t = sum_each(n, contract, [=](std::int64_t i, auto part) {
    if (ahead != 0) prefetch_for_store(out + i);
    return part.load(grad + i) * part.load(y + i);
  });
  row_loop(n, [=](std::int64_t i, auto part) {
    prefetch(grad + i, ahead);
    prefetch(y + i, ahead);
    part.store(out + i, canonical((part.load(grad + i) - Vec::set1(t)) * part.load(y + i)));
  });
}

void log_softmax_backward(const float* grad, const float* y, float* out, std::int64_t n, const Contract& contract,
                          std::int64_t ahead) {
  const float t = sum_each(n, contract, [=](std::int64_t i, auto part) { return part.load(grad + i); });
  row_loop(n, [=](std::int64_t i, auto part) {
    prefetch(grad + i, ahead);
    part.store(out + i, canonical(part.load(grad + i) - exp(part.load(y + i)) * Vec::set1(t)));
  });
}

// The same of doubles.

void softmax(const double* x, double* y, std::int64_t n, const Contract& contract, std::int64_t) {
  const double s = exp_row(x, n, contract, [y](std::int64_t i, auto part, auto e) { part.store(y + i, e); }).sum;
  for (std::int64_t i = 0; i < n; ++i) y[i] = canonical(y[i] / s);
}

void log_softmax_from(const double* x, double* y, std::int64_t n, double max, double log_sum, std::int64_t) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = canonical((x[i] - max) - log_sum);
}

void softmax_backward(const double* grad, const double* y, double* out, std::int64_t n, const Contract& contract,
                      std::int64_t) {
  const double t = sum_of(n, contract, [=](std::int64_t i) { return grad[i] * y[i]; });
  for (std::int64_t i = 0; i < n; ++i) out[i] = canonical((grad[i] - t) * y[i]);
}

void log_softmax_backward(const double* grad, const double* y, double* out, std::int64_t n, const Contract& contract,
                          std::int64_t) {
  const double t = sum_row(grad, n, 1, contract);
  row_loop_double(n, [=](std::int64_t i, auto part) {
    using exact::exp;
    part.store(out + i, canonical(part.load(grad + i) - exp(part.load(y + i)) * part.set1(t)));
  });
}

// Several rows, so that their logarithms are those of vectors.
template <class T>
void log_softmax_of_rows(const T* x, T* y, std::int64_t rows, std::int64_t n, const Contract& contract) {
  constexpr std::int64_t most = tuned(64, 4), elements = tuned(1 << 13, 1 << 5);  // that the first cache has
  T max[most], sum[most];
  const std::int64_t at_once = std::clamp<std::int64_t>(elements / n, 1, most);
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const std::int64_t count = std::min(at_once, rows - first), start = first * n;
    if (first > 0) REPDL_ROUTE("log_softmax: more rows", sizeof(T));
    for (std::int64_t r = 0; r < count; ++r) {
      const RowExp<T> row = exp_row(x + start + r * n, n, contract, [](auto...) {});
      max[r] = row.max, sum[r] = row.sum;
    }
    log_of_sums(sum, sum, count);
    for (std::int64_t r = 0; r < count; ++r)
      log_softmax_from(x + start + r * n, y + start + r * n, n, max[r], sum[r],
                       prefetch_distance(n, rows - 1 - first - r));
  }
}

// The same of rows that lie beside each other.

template <class T>
void softmax_of_columns(const T* x, T* y, const Columns& at, const Contract& contract) {
  const Scratch<T> memory(2 * at.rows);
  T *max = memory.data(), *sum = max + at.rows;
  max_of_columns(x, at, max);
  exp_of_columns(x, at, max, y, at.stride);
  sum_of_each_column(y, at.n, at.stride, at.rows, contract, sum);
  for (std::int64_t i = 0; i < at.n; ++i)
    row_loop_of<T>(at.rows, [sum, to = y + i * at.stride](std::int64_t c, auto part) {
      part.store(to + c, canonical(part.load(to + c) / part.load(sum + c)));
    });
}

template <class T>
void log_softmax_of_columns(const T* x, T* y, const Columns& at, const Contract& contract) {
  const Scratch<T> memory((at.n + 2) * at.rows);
  T *max = memory.data(), *sum = max + at.rows, *e = sum + at.rows;
  max_of_columns(x, at, max);
  exp_of_columns(x, at, max, e, at.rows);
  sum_of_each_column(e, at.n, at.rows, at.rows, contract, sum);
  log_of_sums(sum, sum, at.rows);
  for (std::int64_t i = 0; i < at.n; ++i)
    row_loop_of<T>(at.rows, [=, row = x + i * at.stride, to = y + i * at.stride](std::int64_t c, auto part) {
      part.store(to + c, canonical((part.load(row + c) - part.load(max + c)) - part.load(sum + c)));
    });
}

template <class T>
void softmax_backward_of_columns(const T* grad, const T* y, T* out, const Columns& at, const Contract& contract) {
  const Scratch<T> total(at.rows);
  const std::int64_t stride = at.stride;
  sum_terms_of_columns(
      at.n, at.rows, contract,
      [=](std::int64_t i, std::int64_t c, int width) {
        return load_columns(grad + i * stride + c, width) * load_columns(y + i * stride + c, width);
      },
      total.data());
  for (std::int64_t i = 0; i < at.n * stride; i += stride)
    row_loop_of<T>(at.rows, [=, sum = total.data()](std::int64_t c, auto part) {
      part.store(out + i + c, canonical((part.load(grad + i + c) - part.load(sum + c)) * part.load(y + i + c)));
    });
}

template <class T>
void log_softmax_backward_of_columns(const T* grad, const T* y, T* out, const Columns& at, const Contract& contract) {
  const Scratch<T> total(at.rows);
  const std::int64_t stride = at.stride;
  sum_of_each_column(grad, at.n, stride, at.rows, contract, total.data());
  for (std::int64_t i = 0; i < at.n * stride; i += stride)
    row_loop_of<T>(at.rows, [=, sum = total.data()](std::int64_t c, auto part) {
      using exact::exp;
      part.store(out + i + c, canonical(part.load(grad + i + c) - exp(part.load(y + i + c)) * part.load(sum + c)));
    });
}

template <class T>
using OfRows = void (*)(const T*, T*, std::int64_t, std::int64_t, const Contract&);
template <class T>
using OfGradient = void (*)(const T*, const T*, T*, std::int64_t, const Contract&, std::int64_t);

template <class T>
using OfColumns = void (*)(const T*, T*, const Columns&, const Contract&);
template <class T>
using GradientOfColumns = void (*)(const T*, const T*, T*, const Columns&, const Contract&);

template <class T>
void softmax_of_rows(const T* x, T* y, std::int64_t rows, std::int64_t n, const Contract& contract) {
  for (std::int64_t i = 0; i < rows; ++i)
    softmax(x + i * n, y + i * n, n, contract, prefetch_distance(n, rows - 1 - i));
}

template <class T, OfRows<T> of_rows, OfColumns<T> of_columns>
void softmax_forward(const Tensor& input, std::int64_t dim, const Contract& contract, const Tensor& output,
                     const ExecContext& exec) {
  if (output.count() == 0) return;
  const Around rows = rows_along(input, dim);
  const std::int64_t n = rows.n;
  const T* x = input.as<T>();
  T* y = output.as<T>();
  if (fill_vectors(rows))
    return for_column_tiles(rows, exec.threads, [&](std::int64_t at, std::int64_t, const Columns& columns) {
      of_columns(x + at, y + at, columns, contract);
    });
  if (rows.inner > 1)
    return for_blocks(rows, exec.threads, [&](std::int64_t at, std::int64_t) {
      const Scratch<T> memory(2 * n * rows.inner);
      T *from = memory.data(), *to = from + n * rows.inner;
      transpose_few(x + at, n, rows.inner, from);
      of_rows(from, to, rows.inner, n, contract);
      transpose_few(to, rows.inner, n, y + at);
    });
  parallel_for(rows.outer, row_grain(n), exec.threads, [&](std::int64_t begin, std::int64_t end) {
    of_rows(x + begin * n, y + begin * n, end - begin, n, contract);
  });
}

template <class T, OfGradient<T> of_row, GradientOfColumns<T> of_columns>
void softmax_gradient(const Tensor& grads, const Tensor& output, std::int64_t dim, const Contract& contract,
                      const Tensor& result, const ExecContext& exec) {
  if (result.count() == 0) return;
  const Around rows = rows_along(output, dim);
  const std::int64_t n = rows.n;
  const T *grad = grads.as<T>(), *y = output.as<T>();
  T* out = result.as<T>();
  if (rows.inner > 1)  // few columns too: there is less to compute
    return for_column_tiles(rows, exec.threads, [&](std::int64_t at, std::int64_t, const Columns& columns) {
      of_columns(grad + at, y + at, out + at, columns, contract);
    });
  parallel_for(rows.outer, row_grain(n), exec.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      of_row(grad + i * n, y + i * n, out + i * n, n, contract, prefetch_distance(n, end - 1 - i));
  });
}

template <class T>
constexpr auto softmax_kernel = &softmax_forward<T, &softmax_of_rows<T>, &softmax_of_columns<T>>;
template <class T>
constexpr auto log_softmax_kernel = &softmax_forward<T, &log_softmax_of_rows<T>, &log_softmax_of_columns<T>>;
template <class T>
constexpr auto softmax_backward_kernel = &softmax_gradient<T, &softmax_backward, &softmax_backward_of_columns<T>>;
template <class T>
constexpr auto log_softmax_backward_kernel =
    &softmax_gradient<T, &log_softmax_backward, &log_softmax_backward_of_columns<T>>;

const AddKernel softmax_kernels = add_kernels<softmax_kernel<float>, softmax_kernel<double>>("softmax", Layout::rows);
const AddKernel log_softmax_kernels =
    add_kernels<log_softmax_kernel<float>, log_softmax_kernel<double>>("log_softmax", Layout::rows);
const AddKernel softmax_backward_kernels =
    add_kernels<softmax_backward_kernel<float>, softmax_backward_kernel<double>>("softmax_backward", Layout::rows);
const AddKernel log_softmax_backward_kernels =
    add_kernels<log_softmax_backward_kernel<float>, log_softmax_backward_kernel<double>>("log_softmax_backward",
                                                                                         Layout::rows);

}  // namespace
}  // namespace repdl::cpu
