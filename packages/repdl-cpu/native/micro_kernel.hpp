// The innermost step of gemm.hpp: one micro-tile of C over one piece of k.
#pragma once

#include <cstdint>

#include "repdl/contract/order.hpp"
#include "simd.hpp"

namespace repdl::cpu {

struct MicroTile {
  const float* a;  // a[k * mr + i]
  const float* b;  // b[k * b_width + j]
  std::int64_t kc;
  int mr, b_width;
  int rows, columns;  // of the tile that exist
  bool resume;        // the chain goes on from `chain`, else from +0
  bool chunk_done;    // the chain ends here and enters the tree as part `index`
  bool last;          // the tree ends here and goes to `c`
  std::int64_t index;
  float* level;  // this tile's partial sum at level 0; level l is l * level_stride further
  std::int64_t level_stride;
  float* chain;
  float* c;
  std::int64_t ldc;
  const float* row_bias;
  const float* column_bias;
};

using MicroKernel = void (*)(const MicroTile&);

// What fits the registers: rows * vectors accumulators, one row of B, one broadcast.
constexpr int max_rows = Vec::registers == 32 ? 14 : 6;
constexpr int max_vectors(int rows) {
  const int fit = (Vec::registers - 2) / (rows + 1);
  return fit < 1 ? 1 : fit > 4 ? 4 : fit;
}

// The kernel for a tile of `rows` rows and `vectors` vectors.
MicroKernel micro_kernel(int rows, int vectors);

}  // namespace repdl::cpu
