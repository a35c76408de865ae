// A product with few rows, or with few terms, against a matrix whose columns are contiguous, such as
// the gradients of linear on a small batch.
//
//   for i < M, j < n:  (M, K) @ (K, n) -> (M, n)
//     C[i, j] = dot(A[i, :], B[:, j])
//
// B is read in place, several rows at once from one end to the other, and C holds the unfinished
// chains: a block of columns of it stays in L1. The order is that of gemm.hpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/routes.hpp"
#include "base/tuned.hpp"
#include "gemm/gemm.hpp"

namespace repdl::cpu {

constexpr int max_group_rows = 4;
constexpr std::int64_t few_rows = 8, few_terms = 8;
constexpr std::int64_t row_gemm_block = tuned(4096, 256);  // floats in L1

// Terms at once, a power of two: their factors of A stay in registers, or in L1.
constexpr int max_group_terms(int rows) { return rows <= 2 ? 8 : 4; }

// R rows and some columns of a product.
struct RowGroup {
  const float* a;  // a[i * a_row + k * a_k]
  std::int64_t a_row, a_k;
  const float* b;  // b[k * ldb + j]
  std::int64_t ldb;
  float* c;  // c[i * ldc + j]
  std::int64_t ldc;
  const float* bias;
  std::int64_t columns;
};

// body(j, load, store) for all vectors of columns, load(p) and store(p, x) of those that there are.
template <class Body>
[[gnu::always_inline]] inline void for_each_vector(std::int64_t columns, const Body& body) {
  std::int64_t j = 0;
  for (; j + Vec::width <= columns; j += Vec::width)
    body(j, [](const float* p) { return Vec::load(p); }, [](float* p, Vec x) { x.store(p); });
  if (j == columns) return;
  const int rest = static_cast<int>(columns - j);
  body(j, [=](const float* p) { return Vec::load(p, rest); }, [=](float* p, Vec x) { x.store(p, rest); });
}

// Adds T terms from k on to the chains in c: from +0 if `first`; to results if `last`.
template <int R, int T>
void add_terms(const RowGroup& group, std::int64_t k, bool first, bool last) {
  REPDL_ROUTE("row gemm", R, T);
  Vec x[R][T];
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) x[i][t] = Vec::set1(group.a[i * group.a_row + (k + t) * group.a_k]);
  const std::int64_t ldb = group.ldb, ldc = group.ldc;
  const float *b = group.b + k * ldb, *bias = last ? group.bias : nullptr;
  float* c = group.c;
  for_each_vector(group.columns, [&](std::int64_t j, auto load, auto store) __attribute__((always_inline)) {
    Vec acc[R];
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) acc[i] = first ? Vec::zero() : load(c + i * ldc + j);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const Vec row = load(b + t * ldb + j);
#pragma GCC unroll 4
      for (int i = 0; i < R; ++i) acc[i] = fma(x[i][t], row, acc[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      if (bias) acc[i] = acc[i] + load(bias + j);
      store(c + i * ldc + j, last ? canonical(acc[i]) : acc[i]);
    }
  });
}

// Adds terms k .. end, T at once and then the rest.
template <int R, int T>
void add_all_terms(const RowGroup& group, std::int64_t k, std::int64_t end, bool first, bool last) {
  for (; k + T <= end; k += T, first = false) add_terms<R, T>(group, k, first, last && k + T == end);
  if constexpr (T > 1)
    if (k < end) add_all_terms<R, T / 2>(group, k, end, first, last);
}

// All terms of R rows. level: memory for a partial sum a level of the tree, of R rows each.
template <int R>
void row_group(const RowGroup& group, std::int64_t K, std::int64_t chunk, float* level) {
  const std::int64_t columns = group.columns, ldc = group.ldc;
  const auto each = [&](int l, auto body) __attribute__((always_inline)) {
    for (int i = 0; i < R; ++i)
      for_each_vector(columns, [&](std::int64_t j, auto load, auto store) __attribute__((always_inline)) {
        body(j, group.c + i * ldc + j, level + (l * R + i) * columns + j, load, store);
      });
  };
  for (std::int64_t begin = 0, index = 0;; begin += chunk, ++index) {
    const std::int64_t end = std::min(K, begin + chunk);
    const bool last = end == K, one = last && index == 0;
    add_all_terms<R, max_group_terms(R)>(group, begin, end, true, one);
    if (one) return;
    const int waits = tree_join(index, last, [&](int l) {
      REPDL_ROUTE("row gemm: tree", R);
      each(l, [](std::int64_t, float* c, const float* left, auto load, auto store) { store(c, load(left) + load(c)); });
    });
    if (last) break;
    each(waits, [](std::int64_t, const float* c, float* waiting, auto load, auto store) { store(waiting, load(c)); });
  }
  each(0, [&](std::int64_t j, float* c, const float*, auto load, auto store) {
    store(c, canonical(group.bias ? load(c) + load(group.bias + j) : load(c)));
  });
}

// Whether that is faster than to pack B.
inline bool fits_row_gemm(std::int64_t rows, std::int64_t columns, std::int64_t K) {
  return K > 0 && (rows <= few_rows || (K <= few_terms && columns >= 4 * Vec::width));
}

inline void row_gemm(std::int64_t rows, const float* a, std::int64_t a_row, std::int64_t a_k, const float* b,
                     std::int64_t ldb, std::int64_t n, std::int64_t K, std::int64_t chunk, const Output& out) {
  constexpr decltype(&row_group<1>) kernels[max_group_rows] = {&row_group<1>, &row_group<2>, &row_group<3>,
                                                               &row_group<4>};
  if (!chunk) chunk = K;
  // Columns of C that stay in L1, or of B where more rows use it again.
  const std::int64_t at_once = row_gemm_block / (rows <= max_group_rows ? (rows + 1) / 2 * 2 : few_terms);
  const std::int64_t levels = tree_levels((K + chunk - 1) / chunk);
  const Scratch<float> level(levels * std::min<std::int64_t>(rows, max_group_rows) * std::min(n, at_once));
  for (std::int64_t j = 0; j < n; j += at_once)
    for (std::int64_t i = 0; i < rows; i += max_group_rows) {
      if (j > 0) REPDL_ROUTE("row gemm: second block of columns");
      if (i > 0) REPDL_ROUTE("row gemm: second group of rows");
      const std::int64_t count = std::min<std::int64_t>(max_group_rows, rows - i);
      const float* bias = out.column_bias ? out.column_bias + j : nullptr;
      kernels[count - 1](
          {a + i * a_row, a_row, a_k, b + j, ldb, out.data + i * out.ld + j, out.ld, bias, std::min(at_once, n - j)}, K,
          chunk, level.data());
    }
}

}  // namespace repdl::cpu
