// softmax, log_softmax and their backwards, row by row (softmax.md).
//
//   for i < rows:  (rows, n) -> (rows, n)
//     e = exp(x[i, :] - max(x[i, :]))
//     y[i, :] = e / sum(e)
#include "softmax.hpp"

#include "bind.hpp"
#include "repdl/exact/log.hpp"
#include "threads.hpp"

namespace repdl::cpu {
namespace {

void softmax(const float* x, float* y, std::int64_t n, const Contract& contract) {
  const float s = exp_row(x, y, n, contract).sum;
  for (std::int64_t i = 0; i < n; ++i) y[i] = canonical(y[i] / s);
}

void log_softmax(const float* x, float* y, std::int64_t n, const Contract& contract) {
  const RowExp row = exp_row(x, y, n, contract);
  const float log_sum = exact::log(row.sum);
  for (std::int64_t i = 0; i < n; ++i) y[i] = canonical((x[i] - row.max) - log_sum);
}

void softmax_backward(const float* grad, const float* y, float* out, std::int64_t n, const Contract& contract) {
  const float t = sum_of(n, contract, [grad, y](std::int64_t i) { return grad[i] * y[i]; });
  for (std::int64_t i = 0; i < n; ++i) out[i] = canonical((grad[i] - t) * y[i]);
}

void log_softmax_backward(const float* grad, const float* y, float* out, std::int64_t n, const Contract& contract) {
  const float t = sum_row(grad, n, 1, contract);
  for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(grad[i] - exact::exp(y[i]) * t);
}

template <class F>
void bind_forward(py::module_& module, const char* name, F f) {
  module.def(
      name,
      [f](Address x, Address y, std::int64_t rows, std::int64_t n, std::int64_t lanes, std::int64_t block,
          int threads) {
        const Contract contract = sum_order(lanes, block);
        parallel_for(rows, row_grain(n), threads, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) f(in(x) + i * n, out(y) + i * n, n, contract);
        });
      },
      py::call_guard<py::gil_scoped_release>());
}

template <class F>
void bind_backward(py::module_& module, const char* name, F f) {
  module.def(
      name,
      [f](Address grad, Address y, Address result, std::int64_t rows, std::int64_t n, std::int64_t lanes,
          std::int64_t block, int threads) {
        const Contract contract = sum_order(lanes, block);
        parallel_for(rows, row_grain(n), threads, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            f(in(grad) + i * n, in(y) + i * n, out(result) + i * n, n, contract);
        });
      },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void bind_softmax(py::module_& module) {
  bind_forward(module, "softmax", softmax);
  bind_forward(module, "log_softmax", log_softmax);
  bind_backward(module, "softmax_backward", softmax_backward);
  bind_backward(module, "log_softmax_backward", log_softmax_backward);
}

}  // namespace repdl::cpu
