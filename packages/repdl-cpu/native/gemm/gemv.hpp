// One row against a matrix whose k is contiguous and long, such as linear on one row.
//
//   for j < n:  (K) @ (n, K)' -> (n)
//     c[j] = dot(a, B[j, :])
//
// Chunks are chains of their own: here they lie along the vectors, so that B is read from one end
// to the other. The order is that of gemm.hpp.
#pragma once

#include "gemm/gemm.hpp"

namespace repdl::cpu {

// Whether most lanes would have a chunk.
inline bool fits_gemv(std::int64_t K, std::int64_t chunk) {
  return chunk > 0 && chunk % Vec::width == 0 && K > Vec::width * 2 / 3 * chunk;
}

// a as a[k * step]; bias (n) or null.
inline void gemv(const float* a, std::int64_t step, const float* b, std::int64_t ldb, std::int64_t n, std::int64_t K,
                 std::int64_t chunk, const float* bias, float* c) {
  constexpr int W = Vec::width;
  const std::int64_t chunks = (K + chunk - 1) / chunk, groups = (chunks + W - 1) / W;  // groups of W chunks
  // The row, transposed as B will be. Past the end of k it is -0, and B +0: their product -0 changes no chain.
  const Scratch<float> row_scratch(groups * W * chunk), sums_scratch(groups * W);
  float* row = row_scratch.data();
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t k = 0; k < chunk; ++k)
      for (std::int64_t l = 0; l < W; ++l) {
        const std::int64_t at = (g * W + l) * chunk + k;
        row[(g * chunk + k) * W + l] = at < K ? a[at * step] : -0.0f;
      }
  float* sums = sums_scratch.data();
  alignas(64) float transposed[W * W], staged[W * W];
  for (std::int64_t j = 0; j < n; ++j) {
    const float* column = b + j * ldb;
    for (std::int64_t g = 0; g < groups; ++g) {
      Vec acc = Vec::zero();
      for (std::int64_t k = 0; k < chunk; k += W) {
        const std::int64_t first = g * W * chunk + k;  // of the first lane
        const float* src = column + first;
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
        transpose(src, distance, transposed, W);
        const std::int64_t at = (g * chunk + k) * W;
        // The next column, into L2: L1 has no room.
        for (int l = 0; l < W * W; l += 16) __builtin_prefetch(column + ldb + at + l, 0, 2);
        for (int t = 0; t < W; ++t) acc = fma(Vec::load(row + at + t * W), Vec::load(transposed + t * W), acc);
      }
      acc.store(sums + g * W);
    }
    const float sum = tree_of(sums, chunks);
    c[j] = canonical(bias ? sum + bias[j] : sum);
  }
}

}  // namespace repdl::cpu
