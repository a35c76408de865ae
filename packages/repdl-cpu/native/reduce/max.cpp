// The largest element of each row, and where it stands first (max.md).
//
//   for i < rows:  (rows, n) -> (rows), (rows)
//     index[i] = first NaN of x[i, :], else first of its largest elements
#include <limits>

#include "base/bind.hpp"
#include "reduce/row_max.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {
// Of doubles, as largest.hpp has it for floats.
inline double largest(const double* x, std::int64_t n) {
  double best = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

inline bool has_nan(const double* x, std::int64_t n) {
  int found = 0;
  for (std::int64_t i = 0; i < n; ++i) found |= x[i] != x[i];
  return found != 0;
}

namespace {

template <class T>
std::int64_t first_largest(const T* x, std::int64_t n) {
  std::int64_t i = 0;
  if (has_nan(x, n)) {
    while (x[i] == x[i]) ++i;
    return i;
  }
  const T value = largest(x, n);
  while (x[i] != value) ++i;
  return i;
}

template <class T>
void max_dim(const T* x, T* values, std::int64_t* indices, std::int64_t rows, std::int64_t n, int threads) {
  parallel_for(rows, std::max<std::int64_t>(1, (1 << 15) / n), threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t index = first_largest(x + i * n, n);
      values[i] = canonical(x[i * n + index]);
      if (indices) indices[i] = index;
    }
  });
}

template <class T>
void max_backward(const T* grad, const T* x, const T* y, T* out, std::int64_t n, int threads) {
  std::int64_t ties = 0;
  T each = 0;
  const T largest = *y;
  const auto tied = [largest](T value) { return value == largest || (value != value && largest != largest); };
  parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) {
    for (std::int64_t i = 0; i < n; ++i) ties += tied(x[i]);
    each = canonical(*grad / static_cast<T>(ties));
  });
  parallel_for(n, 1 << 15, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = tied(x[i]) ? each : T(0);
  });
}

}  // namespace

template <class T>
void bind_max(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "max_dim",
      [](Address x, Address values, Address indices, std::int64_t rows, std::int64_t n, int threads) {
        max_dim(in<T>(x), out<T>(values), reinterpret_cast<std::int64_t*>(indices), rows, n, threads);
      },
      release);
  module.def(
      "max_backward",
      [](Address grad, Address x, Address y, Address result, std::int64_t n, int threads) {
        max_backward(in<T>(grad), in<T>(x), in<T>(y), out<T>(result), n, threads);
      },
      release);
}

template void bind_max<float>(py::module_&);
template void bind_max<double>(py::module_&);

}  // namespace repdl::cpu
