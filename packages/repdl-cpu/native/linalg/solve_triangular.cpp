// Substitution (solve_triangular.md): columns of B on their own, some at a time.
//
//   for i < N, from the last one where A is upper triangular:  (N, N), (N, K) -> (N, K)
//     X[i] = (B[i] - A[i, known] @ X[known]) / A[i, i]
#include <algorithm>

#include "base/threads.hpp"
#include "linalg/growing_products.hpp"
#include "linalg/matrices.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t vectors_of_task = 4;

template <class T>
struct Triangle {
  const T* a;
  std::int64_t n;
  bool is_unit;
  std::int64_t chunk;
};

// Row i of X, of which all but the division is done.
template <class T>
void divide(const Triangle<T>& by, std::int64_t i, std::int64_t columns, T* x) {
  if (by.is_unit) return;
  const T diagonal = by.a[i * by.n + i];
  for (std::int64_t j = 0; j < columns; ++j) x[j] = canonical(x[j] / diagonal);
}

// x has B, and gets X.
template <class T>
void solve_lower(const Triangle<T>& by, std::int64_t columns, T* x, std::int64_t row) {
  GrowingProducts<T> sums(by.n, columns, by.n, by.chunk);
  std::int64_t end = 0;
  for (std::int64_t first = 0; first < by.n; first = end) {
    end = std::min({by.n, first + panel_columns, first + sums.room()});
    for (std::int64_t i = first; i < end; ++i) {
      sums.add({i, i + 1, 0, columns}, i - first, by.a + i * by.n + first, by.n, x + first * row, row);
      sums.subtract_row(x + i * row, i, 0, columns, i, x + i * row);
      divide(by, i, columns, x + i * row);
    }
    sums.add({end, by.n, 0, columns}, end - first, by.a + end * by.n + first, by.n, x + first * row, row);
    sums.advance(end - first, end, 0);
  }
}

// V vectors of row i: terms from the diagonal on, which are known last to first and so cannot grow.
template <int V, class T>
void solve_row(const Triangle<T>& by, std::int64_t i, T* x, std::int64_t row) {
  using Vector = VecOf<T>;
  struct Sums {
    Vector at[V];
    [[gnu::always_inline]] Sums operator+(const Sums& other) const {
      Sums result;
      for (int v = 0; v < V; ++v) result.at[v] = at[v] + other.at[v];
      return result;
    }
  };
  const std::int64_t terms = by.n - 1 - i, chunk = by.chunk == 0 ? by.n : by.chunk;
  if (terms == 0) return;
  Tree<Sums, 40> tree;
  Sums sum;
  for (std::int64_t first = 0; first < terms; first += chunk) {
    if (first > 0) tree.push(sum);
    for (int v = 0; v < V; ++v) sum.at[v] = Vector::zero();
    for (std::int64_t k = i + 1 + first; k < i + 1 + std::min(terms, first + chunk); ++k) {
      const Vector factor = Vector::set1(by.a[i * by.n + k]);
      for (int v = 0; v < V; ++v) sum.at[v] = fma(factor, Vector::load(x + k * row + v * Vector::width), sum.at[v]);
    }
  }
  sum = tree.finish(sum);
  for (int v = 0; v < V; ++v) {
    T* const to = x + i * row + v * Vector::width;
    canonical(Vector::load(to) - sum.at[v]).store(to);
  }
}

template <int V, class T>
void solve_upper(const Triangle<T>& by, T* x, std::int64_t row) {
  for (std::int64_t i = by.n - 1; i >= 0; --i) {
    solve_row<V>(by, i, x, row);
    divide(by, i, V * VecOf<T>::width, x + i * row);
  }
}

template <class T>
void solve_columns(const Triangle<T>& by, bool upper, const T* b, std::int64_t columns, std::int64_t of, T* out) {
  const bool is_narrow = columns <= VecOf<T>::width;
  const std::int64_t row = (is_narrow ? 1 : vectors_of_task) * VecOf<T>::width;
  const Scratch<T> known(by.n * row);
  T* const x = known.data();
  for (std::int64_t i = 0; i < by.n; ++i) {
    std::copy(b + i * of, b + i * of + columns, x + i * row);
    std::fill(x + i * row + columns, x + (i + 1) * row, T(0));
  }
  if (!upper)
    solve_lower(by, columns, x, row);
  else if (is_narrow)
    solve_upper<1>(by, x, row);
  else
    solve_upper<vectors_of_task>(by, x, row);
  copy_rows(x, row, out, of, by.n, columns);
}

template <class T>
void solve_triangular(const Tensor& A, const Tensor& B, bool upper, bool unitriangular, const Contract& contract,
                      const Tensor& X, const ExecContext& exec) {
  const std::int64_t n = B.size[B.dims - 2], columns = B.size[B.dims - 1], most = vectors_of_task * VecOf<T>::width;
  if (B.count() == 0) return;
  const std::int64_t blocks = (columns + most - 1) / most;
  for_rows_of(B.count() / (n * columns) * blocks, n * n / 2 * std::min(columns, most), exec.threads,
              [&](std::int64_t t) {
                const std::int64_t matrix = t / blocks, first = t % blocks * most;
                const Triangle<T> by{A.as<T>() + matrix * n * n, n, unitriangular, contract.dot_chunk};
                const std::int64_t at = matrix * n * columns + first;
                solve_columns(by, upper, B.as<T>() + at, std::min(most, columns - first), columns, X.as<T>() + at);
              });
}

const AddKernel solve_triangular_kernels =
    add_kernels<&solve_triangular<float>, &solve_triangular<double>>("solve_triangular", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
