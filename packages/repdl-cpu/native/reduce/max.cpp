// The maximum of each row, and its first index (max.md).
//
//   for i < rows:  (rows, n) -> (rows), (rows)
//     index[i] = first NaN of x[i, :], else first of its largest elements
#include <array>
#include <limits>

#include "base/routes.hpp"
#include "base/scratch.hpp"
#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "reduce/reduced_dims.hpp"
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

// The first element that is equal to a number, which one of them is, or to NaN.
template <class T>
std::int64_t first_equal(const T* x, std::int64_t n, T value) {
  constexpr std::int64_t block = tuned(64, 4);
  const auto equal = [value](T v) { return v == value || (v != v && value != value); };
  std::int64_t i = 0;
  for (; i + block <= n; i += block) {
    int found = 0;
    for (std::int64_t j = 0; j < block; ++j) found |= equal(x[i + j]);
    if (found) break;
    REPDL_ROUTE("max: second block of a search");
  }
  while (!equal(x[i])) ++i;
  return i;
}

// The largest element, of a NaN and of zeros the first.
template <class T>
T largest_of(const T* x, std::int64_t n) {
  if (has_nan(x, n)) return canonical(std::numeric_limits<T>::quiet_NaN());
  const T value = row_max(x, n);
  return value == T(0) ? x[first_equal(x, n, value)] : value;
}

// task(i) for each row.
template <class Task>
void for_rows(std::int64_t rows, std::int64_t n, int threads, const Task& task) {
  parallel_for(rows, std::max<std::int64_t>(1, (1 << 15) / (n + 1)), threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) task(i);
               });
}

template <class T>
void largest_of_rows(const T* x, T* values, std::int64_t rows, std::int64_t n, int threads) {
  for_rows(rows, n, threads, [=](std::int64_t i) { values[i] = largest_of(x + i * n, n); });
}

template <class T>
void max(const Tensor& input, const Tensor& output, const ExecContext& exec) {
  largest_of_rows(input.as<T>(), output.as<T>(), 1, input.count(), exec.threads);
}

template <class T>
void max_dim(const Tensor& input, std::int64_t, bool, const Tensor& values, const Tensor& indices,
             const ExecContext& exec) {
  const T* x = input.as<T>();
  T* largest = values.as<T>();
  auto* index = indices.as<std::int64_t>();
  const std::int64_t n = rows_of(input).n;
  for_rows(values.count(), n, exec.threads, [=](std::int64_t i) {
    largest[i] = largest_of(x + i * n, n);
    index[i] = first_equal(x + i * n, n, largest[i]);
  });
}

// Rows side by side, whose first elements follow each other: tiles of them, an element of each at a time.
template <class T>
void largest_of_columns(const T* x, T* values, const ReducedDims& outer, const ReducedDims& reduced, int threads) {
  constexpr std::int64_t tile = tuned(1024, 64);
  const auto largest = [&](std::int64_t first, std::int64_t place, std::int64_t count) {
    REPDL_ROUTE("max: columns", sizeof(T));
    const T* from = x + first;
    T* best = values + place;
    std::array<int, tile> nan = {};
    std::fill(best, best + count, -std::numeric_limits<T>::infinity());
    for (std::int64_t i = 0; i < reduced.count; ++i) {
      const T* next = from + reduced.offset(i);
      for (std::int64_t c = 0; c < count; ++c) {
        best[c] = next[c] > best[c] ? next[c] : best[c];  // of zeros the first
        nan[c] |= next[c] != next[c];
      }
    }
    for (std::int64_t c = 0; c < count; ++c)
      best[c] = nan[c] ? canonical(std::numeric_limits<T>::quiet_NaN()) : best[c];
  };
  for_tiles_of_columns(outer, reduced, tile, 1 << 15, threads, largest);
}

// The maximum of each row of the last dimension: (rows, n) -> (rows).
template <class T>
void amax(const Tensor& input, const Tensor& output, const ExecContext& exec) {
  const std::int64_t last = input.dims - 1;
  const Ints along{&last, 1};
  const ReducedDims outer(Dimensions(input, along, false)), reduced(Dimensions(input, along, true));
  const T* x = input.as<T>();
  T* values = output.as<T>();
  const std::int64_t n = reduced.count;
  if (outer.count == 0) return;
  if (are_columns(outer, reduced)) return largest_of_columns(x, values, outer, reduced, exec.threads);
  if (n <= 1 || reduced.inner_stride() == 1) {
    for_rows(outer.count, n, exec.threads, [&](std::int64_t i) { values[i] = largest_of(x + outer.offset(i), n); });
    return;
  }
  for_rows(outer.count, n, exec.threads, [&](std::int64_t i) {
    REPDL_ROUTE("max: strided row", sizeof(T));
    const Scratch<T> row(n);
    reduced.gather(x + outer.offset(i), 0, n, row.data());
    values[i] = largest_of(row.data(), n);
  });
}

// out[i, j] = grad[i] / ties where x[i, j] is y[i], else +0; ties is how many of row i are.
template <class T>
void share(const T* grad, const T* x, const T* y, T* out, std::int64_t rows, std::int64_t n, int threads) {
  for_rows(rows, n, threads, [=](std::int64_t i) {
    const T largest = y[i], *row = x + i * n;
    const auto tied = [largest](T v) { return v == largest || (v != v && largest != largest); };
    std::int64_t ties = 0;
    for (std::int64_t j = 0; j < n; ++j) ties += tied(row[j]);
    const T each = canonical(grad[i] / static_cast<T>(ties));
    for (std::int64_t j = 0; j < n; ++j) out[i * n + j] = tied(row[j]) ? each : T(0);
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
const AddKernel amax_kernels = add_kernels<&amax<float>, &amax<double>>("amax");
const AddKernel amax_backward_kernels =
    add_kernels<&amax_backward<float>, &amax_backward<double>>("amax_backward", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
