// A product with few rows against a matrix whose k is contiguous, such as linear on one row.
//
//   for i < R, j < n:  (R, K) @ (n, K)' -> (R, n)
//     C[i, j] = dot(A[i, :], B[j, :])
//
// The matrix is read once, so nothing is packed: squares of it are transposed and used at once. The order is that of
// gemm.hpp.
#pragma once

#include "base/tuned.hpp"
#include "gemm/chunk_tree.hpp"
#include "gemm/gemm.hpp"

namespace repdl::cpu {

constexpr int max_skinny_rows = 4;
constexpr int skinny_vectors = Vec::width < 16 ? 2 : 1;  // a tile: processors fetch some 16 rows of B at once ahead
// Of more elements, which no cache holds, those so far ahead are asked for.
constexpr std::int64_t uncached = tuned(1 << 22, 64), fetched_ahead = 192;

// A square of B as columns; with `ahead` what comes after it is asked for.
[[gnu::always_inline]] inline void transpose_square(const float* square, std::int64_t ldb, bool ahead, float* to,
                                                    std::int64_t distance) {
  transpose(square, ldb, to, distance);
  if (Vec::width < 16 || !ahead) return;  // a row of a narrower square is less than a cache line
  REPDL_ROUTE("skinny gemm: fetched ahead");
  for (int l = 0; l < Vec::width; ++l) __builtin_prefetch(square + l * ldb + fetched_ahead);
}

// V vectors of columns, from column j of B on; A as a[i * row + k * step].
template <int R, int V>
void skinny_gemm_tile(const float* a, std::int64_t row, std::int64_t step, const float* b, std::int64_t ldb,
                      std::int64_t K, std::int64_t chunk, const Output& out, std::int64_t j, bool ahead) {
  REPDL_ROUTE("skinny gemm", R, V);
  constexpr int W = Vec::width;
  // Whether a square is used once, out of registers; else it serves several rows, out of L1.
  constexpr bool once = V == 1 && Vec::registers >= 32;
  alignas(64) float transposed[W * V * W];
  ChunkTree<R * V> tree;
  Vecs<R * V> acc;
  for (std::int64_t begin = 0;; begin += chunk) {
    const std::int64_t end = std::min(K, begin + chunk);
    acc.clear();
    std::int64_t k = begin;
    for (; once && k + W <= end; k += W) {
      alignas(64) float square[W * W];  // stored nowhere, as all loops over it are unrolled
      transpose_square(b + j * ldb + k, ldb, ahead, square, W);
#pragma GCC unroll 16
      for (int t = 0; t < W; ++t)
#pragma GCC unroll 4
        for (int i = 0; i < R; ++i)
          acc[i] = fma(Vec::set1(a[i * row + (k + t) * step]), Vec::load(square + t * W), acc[i]);
    }
    for (; k < end; k += W) {
      const int count = static_cast<int>(std::min<std::int64_t>(W, end - k));
      if (count == W) {
        for (int v = 0; v < V; ++v) transpose_square(b + (j + v * W) * ldb + k, ldb, ahead, transposed + v * W, V * W);
      } else {
        REPDL_ROUTE("skinny gemm: rest of a chunk", R, V);
        for (int c = 0; c < V * W; ++c)
          for (int t = 0; t < count; ++t) transposed[t * V * W + c] = b[(j + c) * ldb + k + t];
      }
      for (int t = 0; t < count; ++t)
        for (int i = 0; i < R; ++i) {
          const Vec x = Vec::set1(a[i * row + (k + t) * step]);
          for (int v = 0; v < V; ++v) acc[i * V + v] = fma(x, Vec::load(transposed + (t * V + v) * W), acc[i * V + v]);
        }
    }
    if (end >= K) break;
    tree.push(acc);
  }
  acc = tree.finish(acc);
  for (int i = 0; i < R; ++i)
    for (int v = 0; v < V; ++v) {
      Vec result = acc[i * V + v];
      if (out.column_bias) result = result + Vec::load(out.column_bias + j + v * W);
      canonical(result).store(out.data + i * out.ld + j + v * W);
    }
}

// All n columns, n at least Vec::width. A last tile that would stick out is moved back: it
// computes some columns twice, with the same bits.
template <int R>
void skinny_gemm_rows(const float* a, std::int64_t row, std::int64_t step, const float* b, std::int64_t ldb,
                      std::int64_t n, std::int64_t K, std::int64_t chunk, const Output& out) {
  constexpr int W = Vec::width;
  constexpr int V = skinny_vectors;
  if (!chunk) chunk = std::max<std::int64_t>(K, 1);
  const bool ahead = n * K > uncached;
  std::int64_t j = 0;
  for (; j + V * W <= n; j += V * W) skinny_gemm_tile<R, V>(a, row, step, b, ldb, K, chunk, out, j, ahead);
  for (; j < n; j += W)
    skinny_gemm_tile<R, 1>(a, row, step, b, ldb, K, chunk, out, std::min<std::int64_t>(j, n - W), ahead);
}

inline void skinny_gemm(std::int64_t rows, const float* a, std::int64_t row, std::int64_t step, const float* b,
                        std::int64_t ldb, std::int64_t n, std::int64_t K, std::int64_t chunk, const Output& out) {
  constexpr decltype(&skinny_gemm_rows<1>) kernels[max_skinny_rows] = {&skinny_gemm_rows<1>, &skinny_gemm_rows<2>,
                                                                       &skinny_gemm_rows<3>, &skinny_gemm_rows<4>};
  kernels[rows - 1](a, row, step, b, ldb, n, K, chunk, out);
}

}  // namespace repdl::cpu
