// Crout's triangular factors of a matrix (lu.md), some columns at a time.
//
//   for k < min(M, N):  (M, N) -> (M, N), rows (M)
//     column k, from row k on: A - L[k:, :k] @ U[:k, k]; its largest element changes places with the first one, which
//     divides the others; row k right of it: A - L[k, :k] @ U[:k, k + 1:]
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

#include "base/threads.hpp"
#include "linalg/growing_products.hpp"
#include "linalg/matrices.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t rows_of_update = tuned(32, 2);

// A number that orders absolute values; of every NaN the largest one.
template <class T>
auto magnitude(T x) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  Bits bits;
  std::memcpy(&bits, &x, sizeof bits);
  return x == x ? bits << 1 : std::numeric_limits<Bits>::max();
}

// The first row of the largest element.
template <class T>
std::int64_t pivot_row(const T* column, std::int64_t row, std::int64_t begin, std::int64_t end) {
  std::int64_t found = begin;
  auto largest = magnitude(column[begin * row]);
  for (std::int64_t i = begin + 1; i < end; ++i)
    if (const auto m = magnitude(column[i * row]); m > largest) {
      largest = m;
      found = i;
    }
  return found;
}

template <class T>
class Factors {
 public:
  Factors(const T* a, std::int64_t m, std::int64_t n, std::int64_t chunk, std::int64_t* rows)
      : m_(m), n_(n), row_(padded_row<T>(n)), work_(m * row_), sums_(m, n, std::min(m, n), chunk), rows_(rows) {
    copy_rows(a, n, lu(0), row_, m, n);
    std::iota(rows, rows + m, 0);
  }

  void compute(bool pivot, int threads) {
    const std::int64_t columns = std::min(m_, n_);
    std::int64_t end = 0;
    for (std::int64_t first = 0; first < columns; first = end) {
      end = std::min({columns, first + panel_columns, first + sums_.room()});
      for (std::int64_t k = first; k < end; ++k) {
        find_column(k, pivot);
        sums_.subtract_row(lu(k) + k + 1, k, k + 1, end - k - 1, k, lu(k) + k + 1);
        sums_.add({k + 1, m_, k + 1, end}, 1, lu(k + 1) + k, row_, lu(k) + k + 1, row_);
      }
      for (std::int64_t k = first; end < n_ && k < end; ++k) {
        sums_.add({k, k + 1, end, n_}, k - first, lu(k) + first, row_, lu(first) + end, row_);
        sums_.subtract_row(lu(k) + end, k, end, n_ - end, k, lu(k) + end);
      }
      const std::int64_t groups = (m_ - end + rows_of_update - 1) / rows_of_update;
      for_rows_of(groups, rows_of_update * (n_ - end) * (end - first), threads, [&](std::int64_t g) {
        const std::int64_t i0 = end + g * rows_of_update, i1 = std::min(m_, i0 + rows_of_update);
        sums_.add({i0, i1, end, n_}, end - first, lu(i0) + first, row_, lu(first) + end, row_);
      });
      sums_.advance(end - first, end, end);
    }
  }

  void copy_to(T* out) const { copy_rows(lu(0), row_, out, n_, m_, n_); }

 private:
  T* lu(std::int64_t i) const { return work_.data() + i * row_; }

  // Column k from its diagonal on.
  void find_column(std::int64_t k, bool pivot) {
    for (std::int64_t i = k; k > 0 && i < m_; ++i) lu(i)[k] = canonical(lu(i)[k] - sums_.sum(i, k, k));
    if (pivot) {
      const std::int64_t chosen = pivot_row(work_.data() + k, row_, k, m_);
      if (chosen != k) {
        std::swap_ranges(lu(k), lu(k) + n_, lu(chosen));
        std::swap(rows_[k], rows_[chosen]);
        sums_.swap_rows(k, chosen);
      }
    }
    const T divisor = lu(k)[k] == 0 ? T(1) : lu(k)[k];
    for (std::int64_t i = k + 1; i < m_; ++i) lu(i)[k] = canonical(lu(i)[k] / divisor);
  }

  const std::int64_t m_, n_, row_;
  const Scratch<T> work_;
  GrowingProducts<T> sums_;
  std::int64_t* const rows_;
};

template <class T>
void lu_factor(const Tensor& A, bool pivot, const Contract& contract, const Tensor& LU, const Tensor& rows,
               const ExecContext& exec) {
  const std::int64_t m = A.size[A.dims - 2], n = A.size[A.dims - 1];
  if (n == 0)
    for (std::int64_t i = 0; i < rows.count(); ++i) rows.as<std::int64_t>()[i] = i % m;
  for_matrices(A, exec.threads, [&](std::int64_t at, int threads) {
    Factors<T> factors(A.as<T>() + at, m, n, contract.dot_chunk, rows.as<std::int64_t>() + at / n);
    factors.compute(pivot, threads);
    factors.copy_to(LU.as<T>() + at);
  });
}

const AddKernel lu_factor_kernels = add_kernels<&lu_factor<float>, &lu_factor<double>>("lu_factor", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
