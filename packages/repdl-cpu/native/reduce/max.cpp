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
void max(const Tensor& input, const Tensor& output, const ExecContext& exec) {
  max_of_rows(input.as<T>(), output.as<T>(), nullptr, 1, input.count(), exec.threads);
}

template <class T>
void max_dim(const Tensor& input, std::int64_t, bool, const Tensor& values, const Tensor& indices,
             const ExecContext& exec) {
  max_of_rows(input.as<T>(), values.as<T>(), indices.as<std::int64_t>(), values.count(), rows_of(input).n,
              exec.threads);
}

// The maximum of each row of the last dimension: (rows, n) -> (rows).
template <class T>
void amax(const Tensor& input, const Tensor& output, const ExecContext& exec) {
  max_of_rows(input.as<T>(), output.as<T>(), nullptr, output.count(), input.size[input.dims - 1], exec.threads);
}

// out[i, j] = grad[i] / ties where x[i, j] is y[i], else +0; ties is how many of row i are.
template <class T>
void share(const T* grad, const T* x, const T* y, T* out, std::int64_t rows, std::int64_t n, int threads) {
  parallel_for(rows, std::max<std::int64_t>(1, (1 << 15) / (n + 1)), threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const T largest = y[i], *row = x + i * n;
                   const auto tied = [largest](T v) { return v == largest || (v != v && largest != largest); };
                   std::int64_t ties = 0;
                   for (std::int64_t j = 0; j < n; ++j) ties += tied(row[j]);
                   const T each = canonical(grad[i] / static_cast<T>(ties));
                   for (std::int64_t j = 0; j < n; ++j) out[i * n + j] = tied(row[j]) ? each : T(0);
                 }
               });
}

template <class T>
void amax_backward(const Tensor& grad, const Tensor& input, const Tensor& output, const Tensor& result,
                   const ExecContext& exec) {
  share(grad.as<T>(), input.as<T>(), output.as<T>(), result.as<T>(), output.count(), input.size[input.dims - 1],
        exec.threads);
}

template <class T>
void max_backward(const Tensor& grad, const Tensor& input, const Tensor& output, const Tensor& result,
                  const ExecContext& exec) {
  share(grad.as<T>(), input.as<T>(), output.as<T>(), result.as<T>(), 1, input.count(), exec.threads);
}

const AddKernel max_kernels = add_kernels<&max<float>, &max<double>>("max", Layout::rows);
const AddKernel max_dim_kernels = add_kernels<&max_dim<float>, &max_dim<double>>("max_dim", Layout::last);
const AddKernel max_backward_kernels =
    add_kernels<&max_backward<float>, &max_backward<double>>("max_backward", Layout::rows);
const AddKernel amax_kernels = add_kernels<&amax<float>, &amax<double>>("amax", Layout::rows);
const AddKernel amax_backward_kernels =
    add_kernels<&amax_backward<float>, &amax_backward<double>>("amax_backward", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
