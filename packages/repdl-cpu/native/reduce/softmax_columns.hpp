// softmax of rows that lie beside each other (softmax.md): element i of row c is at x[i * stride + c], and a
// vector holds an element of each of several rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/routes.hpp"
#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "exact/double_vec.hpp"
#include "exact/exp_vec.hpp"
#include "exact/log_vec.hpp"
#include "reduce/few_terms.hpp"
#include "repdl/shape/around.hpp"
#include "simd/row_loop_double.hpp"

namespace repdl::cpu {

// Elements of a dimension beside each other: `rows` of n elements, whose i-th are `stride` behind those before.
struct Columns {
  std::int64_t n, stride, rows;
};

// Fewer rows beside each other than this leave most of a vector empty: they are transposed.
constexpr std::int64_t least_columns = 8;

inline bool fill_vectors(const Around& around) { return around.inner == 0 || around.inner >= least_columns; }

// to[c * n + i] = from[i * rows + c].
template <class T>
void transpose_few(const T* from, std::int64_t n, std::int64_t rows, T* to) {
  for (std::int64_t c = 0; c < rows; ++c)
    for (std::int64_t i = 0; i < n; ++i) to[c * n + i] = from[i * rows + c];
}

// task(first, position) for each block (n, inner) of (outer, n, inner): where its first element is, and its first row
// among all.
template <class Task>
void for_blocks(const Around& around, int threads, const Task& task) {
  const std::int64_t block = around.n * around.inner;
  parallel_for(around.outer, std::max<std::int64_t>(1, (1 << 12) / (block + 1)), threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t o = begin; o < end; ++o) {
                   REPDL_ROUTE("softmax: few columns");
                   task(o * block, o * around.inner);
                 }
               });
}

// task(first, position, columns) for tiles of (outer, n, inner), each of which stays in the second cache: where its
// first element is, and its first row among all.
template <class Task>
void for_column_tiles(const Around& around, int threads, const Task& task) {
  constexpr std::int64_t elements = tuned(1 << 14, 1 << 6), most = tuned(512, 32), least = 16;
  const std::int64_t tile = std::clamp(elements / std::max<std::int64_t>(around.n, 1) / least * least, least, most);
  const std::int64_t tiles = (around.inner + tile - 1) / tile;
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 12) / (around.n * std::min(tile, around.inner) + 1));
  parallel_for(around.outer * tiles, grain, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      REPDL_ROUTE("softmax: columns");
      const std::int64_t outer = t / tiles, c = t % tiles * tile;
      if (c > 0) REPDL_ROUTE("softmax: second tile of columns");
      task(outer * around.n * around.inner + c, outer * around.inner + c,
           Columns{around.n, around.inner, std::min(tile, around.inner - c)});
    }
  });
}

// max[c] = the largest element of each row that is not NaN; of equal zeros, +0.
template <class T>
void max_of_columns(const T* x, const Columns& columns, T* max) {
  std::fill(max, max + columns.rows, -std::numeric_limits<T>::infinity());
  for (std::int64_t i = 0; i < columns.n; ++i) {
    const T* row = x + i * columns.stride;
    for (std::int64_t c = 0; c < columns.rows; ++c) max[c] = row[c] > max[c] ? row[c] : max[c];
  }
  for (std::int64_t c = 0; c < columns.rows; ++c) max[c] = max[c] + T(0);
}

// e[i * e_stride + c] = exp(x[i * stride + c] - max[c]).
template <class T>
void exp_of_columns(const T* x, const Columns& columns, const T* max, T* e, std::int64_t e_stride) {
  for (std::int64_t i = 0; i < columns.n; ++i) {
    const T* row = x + i * columns.stride;
    T* to = e + i * e_stride;
    row_loop_of<T>(columns.rows, [=](std::int64_t c, auto part) {
      using exact::exp;
      part.store(to + c, exp(part.load(row + c) - part.load(max + c)));
    });
  }
}

// Logarithms of the sums of n rows, which may be in their place.
template <class T>
void log_of_sums(const T* sum, T* logarithm, std::int64_t n) {
  row_loop_of<T>(n, [=](std::int64_t c, auto part) {
    using exact::log;
    part.store(logarithm + c, log(part.load(sum + c)));
  });
}

// The elements of as many rows as a vector has, or of n.
template <class T>
VecOf<T> load_columns(const T* x, std::int64_t n) {
  return n == VecOf<T>::width ? VecOf<T>::load(x) : VecOf<T>::load(x, static_cast<int>(n));
}

// sum[c] = the sum of each row, canonical.
template <class T>
void sum_of_each_column(const T* x, std::int64_t n, std::int64_t stride, std::int64_t rows, const Contract& contract,
                        T* sum) {
  sum_terms_of_columns(
      n, rows, contract,
      [=](std::int64_t i, std::int64_t c, int width) { return load_columns(x + i * stride + c, width); }, sum);
}

}  // namespace repdl::cpu
