// Householder's reflections (qr.md), one after the other.
//
//   for j < K = min(M, N):  (M, N) -> Q (M, columns), R (K, N)
//     v, u of column j, from row j on; what is right of it becomes B - v @ (u.T @ B)
//   for j < K, the last one first: the first columns of the identity, from j on, become the same
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/threads.hpp"
#include "linalg/growing_products.hpp"
#include "linalg/matrices.hpp"
#include "reduce/sum.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t columns_of_reflection = tuned(256, 5);  // that a thread takes at least

template <class T>
T square_sum(const T* x, std::int64_t n, const Contract& contract) {
  return canonical(sum_of(n, contract, [x](std::int64_t i) { return repdl::mul(x[i], x[i]); }));
}

// Powers of two: one that makes the largest element at least 1 and less than 2, and its inverse.
template <class T>
struct Powers {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static constexpr int fraction = sizeof(T) == 4 ? 23 : 52;
  static constexpr Bits bias = sizeof(T) == 4 ? 127 : 1023;

  // Of n elements, one a row.
  Powers(const T* x, std::int64_t row, std::int64_t n) {
    Bits largest = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      Bits bits;
      std::memcpy(&bits, x + i * row, sizeof bits);
      largest = std::max<Bits>(largest, bits << 1);
    }
    const Bits exponent = std::clamp<Bits>(largest >> (fraction + 1), 1, 2 * bias - 1);
    const Bits down_bits = (2 * bias - exponent) << fraction, up_bits = exponent << fraction;
    std::memcpy(&down, &down_bits, sizeof down);
    std::memcpy(&up, &up_bits, sizeof up);
  }

  T down, up;
};

// Rows and columns from some on of a matrix with `row` elements from one row to the next.
template <class T>
struct Corner {
  T* first;
  std::int64_t rows, columns, row;
};

template <class T>
class Reflections {
 public:
  Reflections(std::int64_t m, std::int64_t n, const Contract& contract, int threads)
      : m_(m), count_(std::min(m, n)), contract_(contract), threads_(threads), memory_(2 * count_ * m + 2 * m) {}

  std::int64_t count() const { return count_; }

  // Finds v and u of the first column of a corner with m - j rows, whose first element becomes that of R.
  void find(std::int64_t j, const Corner<T>& at) {
    const Powers<T> power(at.first, at.row, at.rows);
    T *const x = memory_.data() + 2 * count_ * m_, *const squared = x + m_;
    bool is_zero = true;
    for (std::int64_t i = 0; i < at.rows; ++i) {
      x[i] = canonical(repdl::mul(at.first[i * at.row], power.down));
      is_zero = is_zero && x[i] == 0;
    }
    const bool is_done = is_zero || at.rows == 1;
    const auto length = [&](const T* of) {
      std::copy(of, of + at.rows, squared);
      if (is_done) std::fill(squared, squared + at.rows, T(1));
      return square_sum(squared, at.rows, contract_);
    };
    const T size = canonical(std::sqrt(length(x))), r = std::signbit(x[0]) ? -size : size;
    T *const to_v = v(j), *const to_u = u(j), first = x[0];
    std::copy(x, x + at.rows, to_v);
    to_v[0] = canonical(first + r);
    const T factor = is_done ? T(0) : canonical(T(2) / length(to_v));
    for (std::int64_t i = 0; i < at.rows; ++i) to_u[i] = canonical(repdl::mul(to_v[i], factor));
    at.first[0] = canonical(repdl::mul(is_done ? first : -r, power.up));
  }

  // B of m - j rows becomes B - v @ (u.T @ B).
  void apply(std::int64_t j, const Corner<T>& b) const {
    const std::int64_t tiles = (b.columns + columns_of_reflection - 1) / columns_of_reflection;
    for_rows_of(tiles, 2 * b.rows * columns_of_reflection, threads_, [&](std::int64_t t) {
      const std::int64_t begin = t * columns_of_reflection;
      apply_to(j, {b.first + begin, b.rows, std::min(columns_of_reflection, b.columns - begin), b.row});
    });
  }

 private:
  T* v(std::int64_t j) const { return memory_.data() + 2 * j * m_; }
  T* u(std::int64_t j) const { return v(j) + m_; }

  void apply_to(std::int64_t j, const Corner<T>& b) const {
    GrowingProducts<T> sums(1, b.columns, b.rows, contract_.dot_chunk);
    for (std::int64_t k = 0, next = 0; k < b.rows; k = next) {
      next = std::min(b.rows, k + sums.room());
      sums.add({0, 1, 0, b.columns}, next - k, u(j) + k, m_, b.first + k * b.row, b.row);
      sums.advance(next - k, 0, 0);
    }
    const Scratch<T> projected(b.columns);
    T* const p = projected.data();
    for (std::int64_t c = 0; c < b.columns; ++c) p[c] = canonical(sums.sum(0, c, b.rows));
    for (std::int64_t i = 0; i < b.rows; ++i) {
      T* const to = b.first + i * b.row;
      const T factor = v(j)[i];
      for (std::int64_t c = 0; c < b.columns; ++c) to[c] = canonical(to[c] - repdl::fma(factor, p[c], T(0)));
    }
  }

  const std::int64_t m_, count_;
  const Contract& contract_;
  const int threads_;
  const Scratch<T> memory_;
};

template <class T>
void identity(std::int64_t m, std::int64_t n, T* to, std::int64_t row) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t c = 0; c < n; ++c) to[i * row + c] = i == c ? T(1) : T(0);
}

template <class T>
void factor_matrix(const T* a, std::int64_t m, std::int64_t n, std::int64_t columns, const Contract& contract, T* q,
                   T* r, int threads) {
  Reflections<T> reflections(m, n, contract, threads);
  const std::int64_t row = padded_row<T>(std::max(n, columns));
  const Scratch<T> work(m * row);
  T* const x = work.data();
  copy_rows(a, n, x, row, m, n);
  for (std::int64_t j = 0; j < reflections.count(); ++j) {
    T* const corner = x + j * row + j;
    reflections.find(j, {corner, m - j, n - j, row});
    reflections.apply(j, {corner + 1, m - j, n - j - 1, row});
    std::fill(r + j * n, r + j * n + j, T(0));
    std::copy(corner, corner + n - j, r + j * n + j);
  }
  if (columns == 0) return;
  identity(m, columns, x, row);
  for (std::int64_t j = reflections.count() - 1; j >= 0; --j)
    reflections.apply(j, {x + j * row + j, m - j, columns - j, row});
  copy_rows(x, row, q, columns, m, columns);
}

template <class T>
void qr(const Tensor& A, std::int64_t columns, const Contract& contract, const Tensor& Q, const Tensor& R,
        const ExecContext& exec) {
  const std::int64_t m = A.size[A.dims - 2], n = A.size[A.dims - 1];
  const std::int64_t of_q = m * columns, of_r = std::min(m, n) * n;
  if (n == 0)
    for (std::int64_t b = 0; b < Q.count(); b += of_q) identity(m, columns, Q.as<T>() + b, columns);
  for_matrices(A, exec.threads, [&](std::int64_t at, int threads) {
    const std::int64_t b = at / (m * n);
    factor_matrix(A.as<T>() + at, m, n, columns, contract, Q.as<T>() + b * of_q, R.as<T>() + b * of_r, threads);
  });
}

const AddKernel qr_kernels = add_kernels<&qr<float>, &qr<double>>("qr", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
