// softmax and log_softmax of rows, and their gradients (softmax.md).
//
//   for i < rows:  (rows, n) -> (rows, n)
//     m = max(x[i, :]);  e = exp(x[i, :] - m);  s = sum(e)
//     y[i, :] = e / s  or  (x[i, :] - m) - log(s)
//
// A CUDA block takes a row.
#include "reduce/row_reduce.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/shape/around.hpp"

namespace repdl::cuda {
namespace {

constexpr int most_threads = 256;

__global__ void __launch_bounds__(most_threads)
    softmax_rows(const float* __restrict__ inputs, float* __restrict__ outputs, std::int64_t n, SumOrder order) {
  const float* x = inputs + blockIdx.x * n;
  float* y = outputs + blockIdx.x * n;
  const float m = row_max(x, n);
  const float s = row_sum<float>(n, order, [=](std::int64_t i) { return y[i] = exact::exp(x[i] - m); });
  write_row(y, n, [=](std::int64_t i) { return y[i]; }, [=](float e) { return e / s; });
}

__global__ void __launch_bounds__(most_threads)
    log_softmax_rows(const float* inputs, float* outputs, std::int64_t n, SumOrder order) {
  const float* x = inputs + blockIdx.x * n;
  float* y = outputs + blockIdx.x * n;
  const float m = row_max(x, n);
  const float log_s = exact::log(row_sum<float>(n, order, [=](std::int64_t i) { return exact::exp(x[i] - m); }));
  write_row(y, n, [=](std::int64_t i) { return x[i]; }, [=](float v) { return (v - m) - log_s; });
}

__global__ void __launch_bounds__(most_threads)
    softmax_gradients(const float* grads, const float* outputs, float* results, std::int64_t n, SumOrder order) {
  const float *grad = grads + blockIdx.x * n, *y = outputs + blockIdx.x * n;
  const float t = row_sum<float>(n, order, [=](std::int64_t i) { return mul(grad[i], y[i]); });
  write_row(
      results + blockIdx.x * n, n, [=](std::int64_t i) { return Pair<float>(grad[i], y[i]); },
      [=](const Pair<float>& of) { return mul(of.first - t, of.second); });
}

__global__ void __launch_bounds__(most_threads, 2)  // without the number ptxas spills
    log_softmax_gradients(const float* grads, const float* outputs, float* results, std::int64_t n, SumOrder order) {
  const float *grad = grads + blockIdx.x * n, *y = outputs + blockIdx.x * n;
  const float t = row_sum<float>(n, order, [=](std::int64_t i) { return grad[i]; });
  write_row(
      results + blockIdx.x * n, n, [=](std::int64_t i) { return Pair<float>(grad[i], y[i]); },
      [=](const Pair<float>& of) { return of.first - mul(exact::exp(of.second), t); });
}

void forward(void (*kernel)(const float*, float*, std::int64_t, SumOrder), const Tensor& x, const Contract& contract,
             const Tensor& y, const Run& run) {
  if (y.count() == 0) return;
  const Around rows = rows_of(x);
  const SumOrder order(contract, rows.n);
  launch(run.op, kernel, {rows.outer}, row_threads(rows.n, order), 0, stream_of(run), x.as<float>(), y.as<float>(),
         rows.n, order);
}

void backward(void (*kernel)(const float*, const float*, float*, std::int64_t, SumOrder), const Tensor& grad,
              const Tensor& output, const Contract& contract, const Tensor& result, const Run& run) {
  if (result.count() == 0) return;
  const Around rows = rows_of(output);
  const SumOrder order(contract, rows.n);
  launch(run.op, kernel, {rows.outer}, row_threads(rows.n, order), 0, stream_of(run), grad.as<float>(),
         output.as<float>(), result.as<float>(), rows.n, order);
}

void softmax(const Tensor& x, std::int64_t, const Contract& contract, const Tensor& y, const Run& run) {
  forward(softmax_rows, x, contract, y, run);
}
void log_softmax(const Tensor& x, std::int64_t, const Contract& contract, const Tensor& y, const Run& run) {
  forward(log_softmax_rows, x, contract, y, run);
}
void softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t, const Contract& contract,
                      const Tensor& result, const Run& run) {
  backward(softmax_gradients, grad, output, contract, result, run);
}
void log_softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t, const Contract& contract,
                          const Tensor& result, const Run& run) {
  backward(log_softmax_gradients, grad, output, contract, result, run);
}

const AddKernel softmax_kernel = add_kernel<&softmax>("softmax", DType::float32, Layout::last);
const AddKernel log_softmax_kernel = add_kernel<&log_softmax>("log_softmax", DType::float32, Layout::last);
const AddKernel softmax_backward_kernel =
    add_kernel<&softmax_backward>("softmax_backward", DType::float32, Layout::last);
const AddKernel log_softmax_backward_kernel =
    add_kernel<&log_softmax_backward>("log_softmax_backward", DType::float32, Layout::last);

}  // namespace
}  // namespace repdl::cuda
