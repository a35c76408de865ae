// softmax and log_softmax of rows, and their gradients (softmax.md).
//
//   for i < rows:  (rows, n) -> (rows, n)
//     m = max(x[i, :]);  e = exp(x[i, :] - m);  s = sum(e)
//     y[i, :] = e / s  or  (x[i, :] - m) - log(s)
//
// A CUDA block takes a row.
#include "base/ops.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/log.hpp"
#include "reduce/row_reduce.hpp"

namespace repdl::cuda {
namespace {

constexpr int most_threads = 256;

__global__ void __launch_bounds__(most_threads)
    softmax_rows(const float* inputs, float* outputs, std::int64_t n, SumOrder order) {
  const float* x = inputs + blockIdx.x * n;
  float* y = outputs + blockIdx.x * n;
  const float m = row_largest(x, n);
  const float s = row_sum<float>(n, order, [=](std::int64_t i) { return y[i] = exact::exp(x[i] - m); });
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) y[i] = canonical(y[i] / s);
}

__global__ void __launch_bounds__(most_threads)
    log_softmax_rows(const float* inputs, float* outputs, std::int64_t n, SumOrder order) {
  const float* x = inputs + blockIdx.x * n;
  float* y = outputs + blockIdx.x * n;
  const float m = row_largest(x, n);
  const float log_s = exact::log(row_sum<float>(n, order, [=](std::int64_t i) { return exact::exp(x[i] - m); }));
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) y[i] = canonical((x[i] - m) - log_s);
}

__global__ void __launch_bounds__(most_threads)
    softmax_gradients(const float* grads, const float* outputs, float* results, std::int64_t n, SumOrder order) {
  const float *grad = grads + blockIdx.x * n, *y = outputs + blockIdx.x * n;
  const float t = row_sum<float>(n, order, [=](std::int64_t i) { return mul(grad[i], y[i]); });
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    results[blockIdx.x * n + i] = canonical(mul(grad[i] - t, y[i]));
}

__global__ void __launch_bounds__(most_threads)
    log_softmax_gradients(const float* grads, const float* outputs, float* results, std::int64_t n, SumOrder order) {
  const float *grad = grads + blockIdx.x * n, *y = outputs + blockIdx.x * n;
  const float t = row_sum<float>(n, order, [=](std::int64_t i) { return grad[i]; });
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    results[blockIdx.x * n + i] = canonical(grad[i] - mul(exact::exp(y[i]), t));
}

void forward(const char* op, void (*kernel)(const float*, float*, std::int64_t, SumOrder), Address x, Address y,
             std::int64_t rows, std::int64_t n, std::int64_t lanes, std::int64_t block, const Stream& stream) {
  const SumOrder order(lanes, block, n);
  launch(op, kernel, {rows}, row_threads(n, order), 0, stream, in<float>(x), out<float>(y), n, order);
}

void backward(const char* op, void (*kernel)(const float*, const float*, float*, std::int64_t, SumOrder), Address grad,
              Address output, Address result, std::int64_t rows, std::int64_t n, std::int64_t lanes, std::int64_t block,
              const Stream& stream) {
  const SumOrder order(lanes, block, n);
  launch(op, kernel, {rows}, row_threads(n, order), 0, stream, in<float>(grad), in<float>(output), out<float>(result),
         n, order);
}

}  // namespace

void softmax(Address x, Address y, std::int64_t rows, std::int64_t n, std::int64_t lanes, std::int64_t block,
             const Stream& stream) {
  forward("softmax", softmax_rows, x, y, rows, n, lanes, block, stream);
}
void log_softmax(Address x, Address y, std::int64_t rows, std::int64_t n, std::int64_t lanes, std::int64_t block,
                 const Stream& stream) {
  forward("log_softmax", log_softmax_rows, x, y, rows, n, lanes, block, stream);
}
void softmax_backward(Address grad, Address output, Address result, std::int64_t rows, std::int64_t n,
                      std::int64_t lanes, std::int64_t block, const Stream& stream) {
  backward("softmax_backward", softmax_gradients, grad, output, result, rows, n, lanes, block, stream);
}
void log_softmax_backward(Address grad, Address output, Address result, std::int64_t rows, std::int64_t n,
                          std::int64_t lanes, std::int64_t block, const Stream& stream) {
  backward("log_softmax_backward", log_softmax_gradients, grad, output, result, rows, n, lanes, block, stream);
}

}  // namespace repdl::cuda
