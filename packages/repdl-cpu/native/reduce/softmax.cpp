// softmax, log_softmax and their backwards, row by row (softmax.md).
//
//   for i < rows:  (rows, n) -> (rows, n)
//     e = exp(x[i, :] - max(x[i, :]))
//     y[i, :] = e / sum(e)
#include "reduce/softmax.hpp"

#include "base/bind.hpp"
#include "repdl/exact/log.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {
namespace {

// Each works on one row, and asks for the memory of the row `ahead` elements further.

void softmax(const float* x, float* y, std::int64_t n, const Contract& contract, std::int64_t ahead) {
  const float s = exp_row(x, n, contract, [y](std::int64_t i, auto part, Vec e) { part.store(y + i, e); }).sum;
  row_loop(n, [=](std::int64_t i, auto part) {
    prefetch(x + i, ahead);
    part.store(y + i, canonical(part.load(y + i) / Vec::set1(s)));
  });
}

void log_softmax(const float* x, float* y, std::int64_t n, const Contract& contract, std::int64_t ahead) {
  const RowExp row = exp_row(x, n, contract, [=](std::int64_t i, auto, Vec) {
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

template <class F>
void bind_forward(py::module_& module, const char* name, F f) {
  module.def(
      name,
      [f](Address x, Address y, std::int64_t rows, std::int64_t n, std::int64_t lanes, std::int64_t block,
          int threads) {
        const Contract contract = sum_order(lanes, block);
        parallel_for(rows, row_grain(n), threads, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            f(in(x) + i * n, out(y) + i * n, n, contract, prefetch_distance(n, end - 1 - i));
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
            f(in(grad) + i * n, in(y) + i * n, out(result) + i * n, n, contract, prefetch_distance(n, end - 1 - i));
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
