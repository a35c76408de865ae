// softmax, log_softmax and their backwards, row by row (softmax.md).
//
//   for i < rows:  (rows, n) -> (rows, n)
//     e = exp(x[i, :] - max(x[i, :]))
//     y[i, :] = e / sum(e)
#include "reduce/softmax.hpp"

#include "base/threads.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/shape/around.hpp"

namespace repdl::cpu {
namespace {

// Each works on one row, and prefetches the row `ahead` elements further.

void softmax(const float* x, float* y, std::int64_t n, const Contract& contract, std::int64_t ahead) {
  const float s = exp_row(x, n, contract, [y](std::int64_t i, auto part, Vec e) { part.store(y + i, e); }).sum;
  row_loop(n, [=](std::int64_t i, auto part) {
    prefetch(x + i, ahead);
    part.store(y + i, canonical(part.load(y + i) / Vec::set1(s)));
  });
}

void log_softmax(const float* x, float* y, std::int64_t n, const Contract& contract, std::int64_t ahead) {
  const RowExp<float> row = exp_row(x, n, contract, [=](std::int64_t i, auto, Vec) {
    if (ahead != 0) prefetch_for_store(y + i);
  });
  const Vec max = Vec::set1(row.max), log_sum = Vec::set1(exact::log(row.sum));
  row_loop(n, [=](std::int64_t i, auto part) {
    prefetch(x + i, ahead);
    part.store(y + i, canonical((part.load(x + i) - max) - log_sum));
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

void log_softmax(const double* x, double* y, std::int64_t n, const Contract& contract, std::int64_t) {
  const RowExp<double> row = exp_row(x, n, contract, [](auto...) {});
  const double log_sum = exact::log(row.sum);
  for (std::int64_t i = 0; i < n; ++i) y[i] = canonical((x[i] - row.max) - log_sum);
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

template <class T>
using OfRow = void (*)(const T*, T*, std::int64_t, const Contract&, std::int64_t);
template <class T>
using OfGradient = void (*)(const T*, const T*, T*, std::int64_t, const Contract&, std::int64_t);

template <class T, OfRow<T> of_row>
void softmax_forward(const Tensor& input, std::int64_t, const Contract& contract, const Tensor& output,
                     const ExecContext& exec) {
  if (output.count() == 0) return;
  const Around rows = rows_of(input);
  const std::int64_t n = rows.n;
  const T* x = input.as<T>();
  T* y = output.as<T>();
  parallel_for(rows.outer, row_grain(n), exec.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      of_row(x + i * n, y + i * n, n, contract, prefetch_distance(n, end - 1 - i));
  });
}

template <class T, OfGradient<T> of_row>
void softmax_gradient(const Tensor& grads, const Tensor& output, std::int64_t, const Contract& contract,
                      const Tensor& result, const ExecContext& exec) {
  if (result.count() == 0) return;
  const Around rows = rows_of(output);
  const std::int64_t n = rows.n;
  const T *grad = grads.as<T>(), *y = output.as<T>();
  T* out = result.as<T>();
  parallel_for(rows.outer, row_grain(n), exec.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      of_row(grad + i * n, y + i * n, out + i * n, n, contract, prefetch_distance(n, end - 1 - i));
  });
}

const AddKernel softmax_kernels =
    add_kernels<&softmax_forward<float, &softmax>, &softmax_forward<double, &softmax>>("softmax", Layout::last);
const AddKernel log_softmax_kernels =
    add_kernels<&softmax_forward<float, &log_softmax>, &softmax_forward<double, &log_softmax>>("log_softmax",
                                                                                               Layout::last);
const AddKernel softmax_backward_kernels =
    add_kernels<&softmax_gradient<float, &softmax_backward>, &softmax_gradient<double, &softmax_backward>>(
        "softmax_backward", Layout::last);
const AddKernel log_softmax_backward_kernels =
    add_kernels<&softmax_gradient<float, &log_softmax_backward>, &softmax_gradient<double, &log_softmax_backward>>(
        "log_softmax_backward", Layout::last);

}  // namespace
}  // namespace repdl::cpu
