// Distances of pairs of rows (norm.md), by the norms 2 and 1.
//
//   for i < P, j < R:  (P, M), (R, M) -> (P, R)
//     out[i, j] = sqrt(sum over k of d * d), or sum over k of |d|, with d = x1[i, k] - x2[j, k]
//
// Rows of x2 are the elements of a vector: it is transposed first.
#include <algorithm>
#include <cmath>

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

const AddKernel row_distances_kernels =
    add_kernels<&row_distances<float>, &row_distances<double>>("row_distances", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
