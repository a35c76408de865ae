// Dot products that a factorization makes term by term, a matrix of them: each is asked for when it has the terms that
// it needs. Their order is that of matmul.md: chains of `chunk` terms, joined by the tree.
//
//   GrowingProducts<float> sums(rows, columns, most_terms, chunk);
//   sums.add({i0, i1, j0, j1}, terms, a, lda, b, ldb);   chain = fma(a[i, k], b[k, j], chain) for k < terms
//   sums.subtract_row(x, i, j0, count, k, out);          out = x - sum of k terms; x itself where k is 0
//   sums.advance(terms, i, j);                           `terms` were added to all from (i, j) on
//
// Terms are added up to sums.room() of them, then `advance` begins the next chunk.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/routes.hpp"
#include "base/scratch.hpp"
#include "base/tuned.hpp"
#include "repdl/contract/order.hpp"
#include "simd/simd_double.hpp"

namespace repdl::cpu {

// Elements from one row to the next of a matrix that is padded to whole vectors: no power of two, whose rows would lie
// in the same sets of a cache.
template <class T>
std::int64_t padded_row(std::int64_t columns) {
  constexpr std::int64_t width = VecOf<T>::width;
  const std::int64_t row = std::max<std::int64_t>(1, (columns + width - 1) / width) * width;
  return row % 64 == 0 ? row + width : row;
}

struct Part {
  std::int64_t i0, i1, j0, j1;  // rows and columns
};

template <class T>
class GrowingProducts {
 public:
  using Vector = VecOf<T>;

  GrowingProducts(std::int64_t rows, std::int64_t columns, std::int64_t most_terms, std::int64_t chunk)
      : row_(padded_row<T>(columns)), columns_(columns), rows_(rows), chunk_(chunk == 0 ? most_terms + 1 : chunk),
        memory_((1 + tree_levels(most_terms / chunk_ + 1)) * rows * row_) {
    std::fill(memory_.data(), memory_.data() + rows * row_, T(0));
  }

  std::int64_t room() const { return chunk_ - in_chunk_; }

  void add(const Part& at, std::int64_t terms, const T* a, std::int64_t lda, const T* b, std::int64_t ldb) const {
    std::int64_t i = at.i0;
    for (; i + tile_rows <= at.i1; i += tile_rows)
      add_rows<tile_rows>(at, i, terms, a + (i - at.i0) * lda, lda, b, ldb);
    for (; i < at.i1; ++i) add_rows<1>(at, i, terms, a + (i - at.i0) * lda, lda, b, ldb);
  }

  void advance(std::int64_t terms, std::int64_t first_row, std::int64_t first_column) {
    in_chunk_ += terms;
    if (in_chunk_ < chunk_) return;
    REPDL_ROUTE("growing products: next chunk");
    for (std::int64_t i = first_row; i < rows_; ++i) {
      T* chain = level(-1) + i * row_;
      const int to = tree_join(chunks_, false, [&](int l) { join(level(l) + i * row_, chain, first_column); });
      std::copy(chain + first_column, chain + columns_, level(to) + i * row_ + first_column);
      std::fill(chain + first_column, chain + columns_, T(0));
    }
    ++chunks_;
    in_chunk_ = 0;
  }

  // The sum of k terms, all that were added.
  [[gnu::always_inline]] T sum(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const std::int64_t at = i * row_ + j;
    return chunks_ == 0 ? level(-1)[at] : joined(at, k);
  }

  void subtract_row(const T* x, std::int64_t i, std::int64_t j0, std::int64_t count, std::int64_t k, T* out) const {
    if (k == 0) {
      std::copy(x, x + count, out);
    } else if (chunks_ == 0) {
      const T* chain = level(-1) + i * row_ + j0;
      for (std::int64_t j = 0; j < count; ++j) out[j] = canonical(x[j] - chain[j]);
    } else {
      for (std::int64_t j = 0; j < count; ++j) out[j] = canonical(x[j] - sum(i, j0 + j, k));
    }
  }

  // Rows i and other change places.
  void swap_rows(std::int64_t i, std::int64_t other) const {
    for (int l = -1; l < levels(); ++l)
      std::swap_ranges(level(l) + i * row_, level(l) + i * row_ + columns_, level(l) + other * row_);
  }

 private:
  static constexpr int tile_rows = 4, tile_vectors = Vector::registers == 32 ? 4 : 2;

  // Chains are level -1, sums that wait in the tree those after it.
  T* level(int l) const { return memory_.data() + (l + 1) * rows_ * row_; }
  int levels() const { return tree_levels(chunks_ + 1); }

  void join(const T* waiting, T* chain, std::int64_t first) const {
    for (std::int64_t j = first; j < columns_; ++j) chain[j] = waiting[j] + chain[j];
  }

  T joined(std::int64_t at, std::int64_t k) const {
    REPDL_ROUTE("growing products: joined chunks");
    int own = 0;  // the level of the last sum, if no chunk has begun
    T last = level(-1)[at];
    if (k == chunks_ * chunk_) {
      while (!((chunks_ >> own) & 1)) ++own;
      last = level(own++)[at];
    }
    tree_join(chunks_ >> own, true, [&](int l) { last = level(own + l)[at] + last; });
    return last;
  }

  template <int R>
  void add_rows(const Part& at, std::int64_t i, std::int64_t terms, const T* a, std::int64_t lda, const T* b,
                std::int64_t ldb) const {
    constexpr std::int64_t wide = tile_vectors * Vector::width;
    T* chain = level(-1) + i * row_;
    std::int64_t j = at.j0;
    for (; j + wide <= at.j1; j += wide)
      add_tile<R, tile_vectors>(chain + j, Vector::width, terms, a, lda, b + (j - at.j0), ldb);
    for (; j < at.j1; j += Vector::width) {
      const int last = static_cast<int>(std::min<std::int64_t>(Vector::width, at.j1 - j));
      add_tile<R, 1>(chain + j, last, terms, a, lda, b + (j - at.j0), ldb);
    }
  }

  // A tile of R rows and V vectors, of which the last one has `last` elements.
  template <int R, int V>
  void add_tile(T* chain, int last, std::int64_t terms, const T* a, std::int64_t lda, const T* b,
                std::int64_t ldb) const {
    const bool whole = last == Vector::width;
    const auto load = [=](const T* p, int v) {
      return V > 1 || whole ? Vector::load(p + v * Vector::width) : Vector::load(p, last);
    };
    Vector sum[R][V];
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) sum[r][v] = load(chain + r * row_, v);
    for (std::int64_t k = 0; k < terms; ++k) {
      Vector y[V];
      for (int v = 0; v < V; ++v) y[v] = load(b + k * ldb, v);
      for (int r = 0; r < R; ++r) {
        const Vector x = Vector::set1(a[r * lda + k]);
        for (int v = 0; v < V; ++v) sum[r][v] = fma(x, y[v], sum[r][v]);
      }
    }
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) {
        T* to = chain + r * row_ + v * Vector::width;
        V > 1 || whole ? sum[r][v].store(to) : sum[r][v].store(to, last);
      }
  }

  const std::int64_t row_, columns_, rows_, chunk_;
  const Scratch<T> memory_;
  std::int64_t chunks_ = 0, in_chunk_ = 0;  // that are complete; terms in the next one
};

}  // namespace repdl::cpu
