// Distances of pairs of rows (norm.md), by the norms 2 and 1.
//
//   for i < P, j < R:  (P, M), (R, M) -> (P, R)
//     out[i, j] = sqrt(sum over k of d * d), or sum over k of |d|, with d = x1[i, k] - x2[j, k]
//   and backwards, for i < P, k < M:  grad (P, R) of the sums, (P, M), (R, M) -> (P, M)
//     out[i, k] = sum over j of grad[i, j] * (d + d), or of grad[i, j] * sign(d)
//     If one matrix of x1 broadcasts to several of grad, their terms follow each other.
//
// Rows of x2 are the elements of a vector forwards: it is transposed first.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "reduce/few_terms.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "simd/mask_double.hpp"
#include "simd/simd_mask.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t terms_a_distance_thread = tuned(1 << 14, 8);
constexpr std::int64_t rows_a_vector_block = tuned(64, 20);  // which are the elements of vectors
constexpr std::int64_t rows_transposed = tuned(16, 3);       // at a time

// Of columns c .. c + n: |d|, or its square.
template <class T, bool is_square>
struct DistanceTerms {
  const T *row, *columns;  // of x1, and x2 transposed
  std::int64_t count;      // of columns

  VecOf<T> operator()(std::int64_t k, std::int64_t c, int n) const {
    using Vector = VecOf<T>;
    const T* const x = columns + k * count + c;
    const Vector d = Vector::set1(row[k]) - (n == Vector::width ? Vector::load(x) : Vector::load(x, n));
    return is_square ? d * d : absolute(d);
  }
};

template <class T, bool is_square>
void distances(const T* x1, std::int64_t rows, const T* columns, std::int64_t count, std::int64_t terms,
               const Contract& contract, T* out, int threads) {
  const std::int64_t least = terms_a_distance_thread / std::max<std::int64_t>(1, terms * count);
  parallel_for(rows, least, threads, [&](std::int64_t from, std::int64_t until) {
    for (std::int64_t i = from; i < until; ++i) {
      T* const to = out + i * count;
      sum_terms_of_columns(terms, count, contract, DistanceTerms<T, is_square>{x1 + i * terms, columns, count}, to);
      if constexpr (is_square)
        for (std::int64_t c = 0; c < count; ++c) to[c] = canonical(std::sqrt(to[c]) + T(0));
    }
  });
}

// The number of the matrix of an operand that broadcasts to matrix number `at` of the output.
std::int64_t matrix_of(const Tensor& operand, const Tensor& output, std::int64_t at) {
  std::int64_t result = 0, step = 1;
  for (int back = 3; back <= output.dims; ++back) {
    const std::int64_t size = output.size[output.dims - back], place = at % size;
    at /= size;
    if (back > operand.dims || operand.size[operand.dims - back] == 1) continue;
    result += place * step;
    step *= size;
  }
  return result;
}

template <class T>
void row_distances(const Tensor& x1, const Tensor& x2, std::int64_t p, const Contract& contract, const Tensor& output,
                   const ExecContext& exec) {
  const std::int64_t rows = x1.size[x1.dims - 2], count = x2.size[x2.dims - 2], terms = x1.size[x1.dims - 1];
  if (output.count() == 0) return;
  const Scratch<T> scratch(terms * count);
  T* const columns = scratch.data();
  std::int64_t transposed = -1;  // the matrix of x2 that is there
  for (std::int64_t at = 0; at < output.count() / (rows * count); ++at) {
    const std::int64_t second = matrix_of(x2, output, at);
    if (second != transposed) {
      const T* const from = x2.as<T>() + second * count * terms;
      for (std::int64_t j = 0; j < count; ++j)
        for (std::int64_t k = 0; k < terms; ++k) columns[k * count + j] = from[j * terms + k];
      transposed = second;
    }
    const T* const first = x1.as<T>() + matrix_of(x1, output, at) * rows * terms;
    T* const to = output.as<T>() + at * rows * count;
    if (p == 2)
      distances<T, true>(first, rows, columns, count, terms, contract, to, exec.threads);
    else
      distances<T, false>(first, rows, columns, count, terms, contract, to, exec.threads);
  }
}

// Of a sum of squares, grad * (d + d), else grad * sign(d).
template <class V>
V gradient_term(V grad, V d, bool is_square) {
  return grad * (is_square ? d + d : sign_of(d));
}

// Of columns c .. c + n of a row of x1.
template <class T>
struct DistanceGradientOfColumns {
  const T* row;
  const T* const* rows;  // of x2
  const T* grad;
  bool is_square;

  VecOf<T> operator()(std::int64_t k, std::int64_t c, int n) const {
    const auto d = RowTerms<T>{&row}(0, c, n) - RowTerms<T>{rows}(k, c, n);
    return gradient_term(VecOf<T>::set1(grad[k]), d, is_square);
  }
};

// Of one column of rows i .. i + n of x1.
template <class T>
struct DistanceGradientOfRows {
  const T* column;
  const T* const* rows;  // of x2
  std::int64_t place;    // of the column in them
  const T* grads;        // transposed
  std::int64_t count;
  bool is_square;

  VecOf<T> operator()(std::int64_t k, std::int64_t i, int n) const {
    const auto d = RowTerms<T>{&column}(0, i, n) - VecOf<T>::set1(rows[k][place]);
    const T* const grad = grads + k * count;
    return gradient_term(RowTerms<T>{&grad}(0, i, n), d, is_square);
  }
};

// What one matrix of x1 is subtracted from: the rows of matrices of x2, one behind the other, and the gradient of each
// distance, of matrices (P, R).
template <class T>
struct DistanceRows {
  std::vector<const T*> rows, grads;
  std::int64_t rows_of_each;

  std::int64_t terms() const { return static_cast<std::int64_t>(rows.size()); }

  // The gradients of the distances between these and each of n rows, from `first` on: (terms, n).
  void gradients(std::int64_t first, std::int64_t n, T* to) const {
    for (const T* const grad : grads)
      for (std::int64_t j = 0, here = 0; j < rows_of_each; j += here, to += here * n) {
        here = std::min(rows_of_each - j, rows_transposed);
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t r = 0; r < here; ++r) to[r * n + i] = grad[(first + i) * rows_of_each + j + r];
      }
  }
};

template <class T>
void distance_gradients(const T* x1, std::int64_t count, std::int64_t width, const DistanceRows<T>& others,
                        bool is_square, const Contract& contract, T* out, int threads) {
  const std::int64_t terms = others.terms(), work = std::max<std::int64_t>(1, terms * width);
  if (width >= VecOf<T>::width / 2) {
    REPDL_ROUTE("row_distances: gradient of columns", sizeof(T));
    parallel_for(count, terms_a_distance_thread / work, threads, [&](std::int64_t from, std::int64_t until) {
      const Scratch<T> scratch(terms);
      T* const grad = scratch.data();
      for (std::int64_t i = from; i < until; ++i) {
        others.gradients(i, 1, grad);
        const DistanceGradientOfColumns<T> term{x1 + i * width, others.rows.data(), grad, is_square};
        sum_terms_of_columns(terms, width, contract, term, out + i * width);
      }
    });
    return;
  }
  REPDL_ROUTE("row_distances: gradient of rows", sizeof(T));
  constexpr std::int64_t most = rows_a_vector_block;
  const std::int64_t blocks = (count + most - 1) / most;
  parallel_for(blocks, terms_a_distance_thread / (work * most), threads, [&](std::int64_t from, std::int64_t until) {
    const Scratch<T> scratch(terms * std::min(most, count));
    T column[most], sums[most];
    for (std::int64_t first = from * most; first < std::min(until * most, count); first += most) {
      const std::int64_t here = std::min(count - first, most);
      others.gradients(first, here, scratch.data());
      for (std::int64_t c = 0; c < width; ++c) {
        for (std::int64_t i = 0; i < here; ++i) column[i] = x1[(first + i) * width + c];
        const DistanceGradientOfRows<T> term{column, others.rows.data(), c, scratch.data(), here, is_square};
        sum_terms_of_columns(terms, here, contract, term, sums);
        for (std::int64_t i = 0; i < here; ++i) out[(first + i) * width + c] = sums[i];
      }
    }
  });
}

template <class T>
void row_distances_backward(const Tensor& grad, const Tensor& x1, const Tensor& x2, std::int64_t p,
                            const Contract& contract, const Tensor& output, const ExecContext& exec) {
  const std::int64_t count = x1.size[x1.dims - 2], width = x1.size[x1.dims - 1], second = x2.size[x2.dims - 2];
  if (output.count() == 0) return;
  // The matrices of grad that each of x1 broadcasts to.
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  const std::int64_t matrices = second == 0 ? 0 : grad.count() / (count * second);
  for (std::int64_t m = 0; m < matrices; ++m) pairs.emplace_back(matrix_of(x1, grad, m), m);
  std::sort(pairs.begin(), pairs.end());
  auto next = pairs.begin();
  for (std::int64_t at = 0; at < output.count() / (count * width); ++at) {
    DistanceRows<T> others{{}, {}, second};
    for (; next != pairs.end() && next->first == at; ++next) {
      others.grads.push_back(grad.as<T>() + next->second * count * second);
      const T* const rows = x2.as<T>() + matrix_of(x2, grad, next->second) * second * width;
      for (std::int64_t j = 0; j < second; ++j) others.rows.push_back(rows + j * width);
    }
    const T* const first = x1.as<T>() + at * count * width;
    T* const to = output.as<T>() + at * count * width;
    distance_gradients(first, count, width, others, p == 2, contract, to, exec.threads);
  }
}

const AddKernel row_distances_kernels =
    add_kernels<&row_distances<float>, &row_distances<double>>("row_distances", Layout::rows);
const AddKernel row_distances_backward_kernels =
    add_kernels<&row_distances_backward<float>, &row_distances_backward<double>>("row_distances_backward",
                                                                                 Layout::rows);

}  // namespace
}  // namespace repdl::cpu
