// One row against few columns of a matrix whose k is contiguous and long, such as a dot product.
//
//   for j < n:  (K) @ (n, K)' -> (n)
//     c[j] = dot(a, B[j, :])
//
// Chunks are chains of their own: here they lie along the vectors, as columns do not fill one. The order is that of
// gemm.hpp.
#pragma once

#include "gemm/gemm.hpp"

namespace repdl::cpu {

// Whether most lanes would have a chunk.
inline bool fits_gemv(std::int64_t K, std::int64_t chunk) {
  return chunk > 0 && chunk % Vec::width == 0 && K > Vec::width * 2 / 3 * chunk;
}

// One row, which lies in groups of W chunks as a column will: element k of each chunk beside those of the others.
struct GemvRow {
  const float* row;
  std::int64_t K, chunk, groups, ldb;
  float* sums;  // of a column's chunks

  // The sums of C columns: the chain of one waits for its additions, those of four do not.
  template <int C>
  void columns(const float* b, const float* bias, float* c) const {
    constexpr int W = Vec::width;
    REPDL_ROUTE("gemv: columns", C);
    alignas(64) float transposed[C][W * W], staged[W * W];
    for (std::int64_t g = 0; g < groups; ++g) {
      Vec acc[C];
      for (Vec& sum : acc) sum = Vec::zero();
      for (std::int64_t k = 0; k < chunk; k += W) {
        const std::int64_t first = g * W * chunk + k;  // of the first lane
        const std::int64_t at = (g * chunk + k) * W;
        for (int i = 0; i < C; ++i) {
          const float *column = b + i * ldb, *src = column + first;
          std::int64_t distance = chunk;
          if ((g + 1) * W * chunk > K) {
            REPDL_ROUTE("gemv: end of k");
            for (int l = 0; l < W; ++l) {
              const std::int64_t rest = std::clamp<std::int64_t>(K - first - l * chunk, 0, W);
              Vec::load(rest > 0 ? src + l * chunk : column, static_cast<int>(rest)).store(staged + l * W);
            }
            src = staged;
            distance = W;
          }
          if (g > 0) REPDL_ROUTE("gemv: several groups of chunks");
          transpose(src, distance, transposed[i], W);
        }
        for (int t = 0; t < W; ++t)
          for (int i = 0; i < C; ++i)
            acc[i] = fma(Vec::load(row + at + t * W), Vec::load(transposed[i] + t * W), acc[i]);
      }
      for (int i = 0; i < C; ++i) acc[i].store(sums + (i * groups + g) * W);
    }
    for (int i = 0; i < C; ++i) {
      const float sum = tree_of(sums + i * groups * W, (K + chunk - 1) / chunk);
      c[i] = canonical(bias ? sum + bias[i] : sum);
    }
  }
};

// a as a[k * step]; bias (n) or null.
inline void gemv(const float* a, std::int64_t step, const float* b, std::int64_t ldb, std::int64_t n, std::int64_t K,
                 std::int64_t chunk, const float* bias, float* c) {
  constexpr int W = Vec::width, at_once = W > 4 ? 4 : 2;
  const std::int64_t chunks = (K + chunk - 1) / chunk, groups = (chunks + W - 1) / W;
  // Past the end of k the row is -0, and B +0: their product -0 changes no chain.
  const Scratch<float> row_scratch(groups * W * chunk), sums_scratch(at_once * groups * W);
  float* row = row_scratch.data();
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t k = 0; k < chunk; ++k)
      for (std::int64_t l = 0; l < W; ++l) {
        const std::int64_t at = (g * W + l) * chunk + k;
        row[(g * chunk + k) * W + l] = at < K ? a[at * step] : -0.0f;
      }
  const GemvRow product{row, K, chunk, groups, ldb, sums_scratch.data()};
  std::int64_t j = 0;
  for (; j + at_once <= n; j += at_once) product.columns<at_once>(b + j * ldb, bias ? bias + j : nullptr, c + j);
  for (; j < n; ++j) product.columns<1>(b + j * ldb, bias ? bias + j : nullptr, c + j);
}

}  // namespace repdl::cpu
