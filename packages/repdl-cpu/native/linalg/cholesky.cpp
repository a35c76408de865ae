// The triangular factor of a positive-definite matrix (cholesky.md), some columns at a time.
//
//   for k < N:  (N, N) -> (N, N)
//     L[k:, k] = A[k:, k] - L[k:, :k] @ L[k, :k], divided by the root of its first element
#include <cmath>

#include "base/threads.hpp"
#include "linalg/growing_products.hpp"
#include "linalg/matrices.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t rows_of_triangle = tuned(32, 3);  // which go as far right as the last of them

template <class T>
void factor(const T* a, std::int64_t n, std::int64_t chunk, T* out, int threads) {
  const std::int64_t row = padded_row<T>(n);
  const Scratch<T> factor(n * row), panel(panel_columns * row);
  GrowingProducts<T> sums(n, n, n, chunk);
  T* const l = factor.data();
  T* const transposed = panel.data();  // columns of the panel, one after the other
  copy_rows(a, n, l, row, n, n);
  std::int64_t end = 0;
  for (std::int64_t first = 0; first < n; first = end) {
    end = std::min({n, first + panel_columns, first + sums.room()});
    for (std::int64_t k = first; k < end; ++k) {
      T* const column = transposed + (k - first) * row;
      for (std::int64_t i = k; i < n; ++i)
        column[i] = k == 0 ? l[i * row] : canonical(l[i * row + k] - sums.sum(i, k, k));
      const T root = canonical(std::sqrt(column[k]));
      column[k] = root;
      for (std::int64_t i = k + 1; i < n; ++i) column[i] = canonical(column[i] / root);
      for (std::int64_t i = k; i < n; ++i) l[i * row + k] = column[i];
      if (k + 1 < end) sums.add({k + 1, n, k + 1, end}, 1, column + k + 1, 1, column + k + 1, row);
    }
    const std::int64_t groups = (n - end + rows_of_triangle - 1) / rows_of_triangle;
    for_rows_of(groups, rows_of_triangle * (n - end) * (end - first), threads, [&](std::int64_t g) {
      const std::int64_t i0 = end + g * rows_of_triangle, i1 = std::min(n, i0 + rows_of_triangle);
      sums.add({i0, i1, end, i1}, end - first, l + i0 * row + first, row, transposed + end, row);
    });
    sums.advance(end - first, end, end);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    std::copy(l + i * row, l + i * row + i + 1, out + i * n);
    std::fill(out + i * n + i + 1, out + (i + 1) * n, T(0));
  }
}

template <class T>
void cholesky(const Tensor& A, const Contract& contract, const Tensor& L, const ExecContext& exec) {
  const std::int64_t n = A.size[A.dims - 1];
  for_matrices(A, exec.threads, [&](std::int64_t at, int threads) {
    factor(A.as<T>() + at, n, contract.dot_chunk, L.as<T>() + at, threads);
  });
}

const AddKernel cholesky_kernels = add_kernels<&cholesky<float>, &cholesky<double>>("cholesky", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
