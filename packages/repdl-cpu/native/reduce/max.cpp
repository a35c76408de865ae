// The maximum of each row, and its first index (max.md).
//
//   for i < rows:  (rows, n) -> (rows), (rows)
//     index[i] = first NaN of x[i, :], else first of its largest elements
#include <limits>

#include "base/threads.hpp"
#include "reduce/row_max.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/shape/around.hpp"

namespace repdl::cpu {
// Of doubles, as row_max.hpp has it for floats.
inline double row_max(const double* x, std::int64_t n) {
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
std::int64_t index_of_max(const T* x, std::int64_t n) {
  std::int64_t i = 0;
  if (has_nan(x, n)) {
    while (x[i] == x[i]) ++i;
    return i;
  }
  const T value = row_max(x, n);
  while (x[i] != value) ++i;
  return i;
}

// `indices` may be null.
template <class T>
void max_of_rows(const T* x, T* values, std::int64_t* indices, std::int64_t rows, std::int64_t n, int threads) {
  parallel_for(rows, std::max<std::int64_t>(1, (1 << 15) / (n + 1)), threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t index = index_of_max(x + i * n, n);
                   values[i] = canonical(x[i * n + index]);
                   if (indices) indices[i] = index;
                 }
               });
}

template <class T>
void max(const Tensor& input, const Tensor& output, const Run& run) {
  max_of_rows(input.as<T>(), output.as<T>(), nullptr, 1, input.count(), run.threads);
}

template <class T>
void max_dim(const Tensor& input, std::int64_t, bool, const Tensor& values, const Tensor& indices, const Run& run) {
  max_of_rows(input.as<T>(), values.as<T>(), indices.as<std::int64_t>(), values.count(), rows_of(input).n, run.threads);
}

template <class T>
void max_backward(const Tensor& grads, const Tensor& input, const Tensor& output, const Tensor& result,
                  const Run& run) {
  const T *grad = grads.as<T>(), *x = input.as<T>(), *y = output.as<T>();
  T* out = result.as<T>();
  const std::int64_t n = input.count();
  std::int64_t ties = 0;
  T each = 0;
  const T max = *y;
  const auto tied = [max](T value) { return value == max || (value != value && max != max); };
  parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) {
    for (std::int64_t i = 0; i < n; ++i) ties += tied(x[i]);
    each = canonical(*grad / static_cast<T>(ties));
  });
  parallel_for(n, 1 << 15, run.threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = tied(x[i]) ? each : T(0);
  });
}

const AddKernel max_kernels = add_kernels<&max<float>, &max<double>>("max", Layout::rows);
const AddKernel max_dim_kernels = add_kernels<&max_dim<float>, &max_dim<double>>("max_dim", Layout::last);
const AddKernel max_backward_kernels =
    add_kernels<&max_backward<float>, &max_backward<double>>("max_backward", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
