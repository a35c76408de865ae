// The largest element of each row, and where it stands first (max.md).
//
//   for i < rows:  (rows, n) -> (rows), (rows)
//     index[i] = first NaN of x[i, :], else first of its largest elements
#include "bind.hpp"
#include "largest.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "threads.hpp"

namespace repdl::cpu {
namespace {

std::int64_t first_largest(const float* x, std::int64_t n) {
  std::int64_t i = 0;
  if (has_nan(x, n)) {
    while (x[i] == x[i]) ++i;
    return i;
  }
  const float value = largest(x, n);
  while (x[i] != value) ++i;
  return i;
}

void max_dim(const float* x, float* values, std::int64_t* indices, std::int64_t rows, std::int64_t n, int threads) {
  parallel_for(rows, std::max<std::int64_t>(1, (1 << 15) / n), threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t index = first_largest(x + i * n, n);
      values[i] = canonical(x[i * n + index]);
      if (indices) indices[i] = index;
    }
  });
}

void max_backward(const float* grad, const float* x, const float* y, float* out, std::int64_t n, int threads) {
  std::int64_t ties = 0;
  float each = 0.0f;
  const float largest = *y;
  const auto tied = [largest](float value) { return value == largest || (value != value && largest != largest); };
  parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) {
    for (std::int64_t i = 0; i < n; ++i) ties += tied(x[i]);
    each = canonical(*grad / static_cast<float>(ties));
  });
  parallel_for(n, 1 << 15, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = tied(x[i]) ? each : 0.0f;
  });
}

}  // namespace

void bind_max(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "max_dim",
      [](Address x, Address values, Address indices, std::int64_t rows, std::int64_t n, int threads) {
        max_dim(in(x), out(values), reinterpret_cast<std::int64_t*>(indices), rows, n, threads);
      },
      release);
  module.def(
      "max_backward",
      [](Address grad, Address x, Address y, Address result, std::int64_t n, int threads) {
        max_backward(in(grad), in(x), in(y), out(result), n, threads);
      },
      release);
}

}  // namespace repdl::cpu
