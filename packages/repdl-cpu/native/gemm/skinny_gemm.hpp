// A product with few rows against a matrix whose k is contiguous, such as linear on one row.
//
//   for i < R, j < n:  (R, K) @ (n, K)' -> (R, n)
//     C[i, j] = dot(A[i, :], B[j, :])
//
// The matrix is read once, so nothing is packed: squares of it are transposed and used at once. The order is that of
// gemm.hpp.
#pragma once

#include "gemm/chunk_tree.hpp"
#include "gemm/gemm.hpp"

namespace repdl::cpu {

constexpr int max_skinny_rows = 4;

// V vectors of columns, from column j of B on; A as a[i * row + k * step].
template <int R, int V>
void skinny_gemm_tile(const float* a, std::int64_t row, std::int64_t step, const float* b, std::int64_t ldb,
                      std::int64_t K, std::int64_t chunk, const Output& out, std::int64_t j) {
  REPDL_ROUTE("skinny gemm", R, V);
  constexpr int W = Vec::width;
  // Whether a square is used once, out of registers; else it serves several rows, out of L1.
  constexpr bool once = R <= 2 && Vec::registers >= 32;
  alignas(64) float transposed[W * V * W];
  ChunkTree<R * V> tree;
  Vecs<R * V> acc;
  for (std::int64_t begin = 0;; begin += chunk) {
    const std::int64_t end = std::min(K, begin + chunk);
    acc.clear();
    std::int64_t k = begin;
    for (; once && k + W <= end; k += W) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        alignas(64) float square[W * W];  // stored nowhere, as all loops over it are unrolled
        transpose(b + (j + v * W) * ldb + k, ldb, square, W);
#pragma GCC unroll 16
        for (int t = 0; t < W; ++t)
#pragma GCC unroll 2
          for (int i = 0; i < R; ++i)
            acc[i * V + v] = fma(Vec::set1(a[i * row + (k + t) * step]), Vec::load(square + t * W), acc[i * V + v]);
      }
    }
    for (; k < end; k += W) {
      const int count = static_cast<int>(std::min<std::int64_t>(W, end - k));
      if (count == W) {
        for (int v = 0; v < V; ++v) transpose(b + (j + v * W) * ldb + k, ldb, transposed + v * W, V * W);
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
  if (!chunk) chunk = std::max<std::int64_t>(K, 1);
  std::int64_t j = 0;
  for (; j + 2 * W <= n; j += 2 * W) skinny_gemm_tile<R, 2>(a, row, step, b, ldb, K, chunk, out, j);
  for (; j < n; j += W) skinny_gemm_tile<R, 1>(a, row, step, b, ldb, K, chunk, out, std::min<std::int64_t>(j, n - W));
}

inline void skinny_gemm(std::int64_t rows, const float* a, std::int64_t row, std::int64_t step, const float* b,
                        std::int64_t ldb, std::int64_t n, std::int64_t K, std::int64_t chunk, const Output& out) {
  constexpr decltype(&skinny_gemm_rows<1>) kernels[max_skinny_rows] = {&skinny_gemm_rows<1>, &skinny_gemm_rows<2>,
                                                                       &skinny_gemm_rows<3>, &skinny_gemm_rows<4>};
  kernels[rows - 1](a, row, step, b, ldb, n, K, chunk, out);
}

}  // namespace repdl::cpu
