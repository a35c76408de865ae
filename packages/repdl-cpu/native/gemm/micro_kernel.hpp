// The innermost step of gemm.hpp: one micro-tile of C over one piece of k.
#pragma once

#include <cstdint>

#include "repdl/contract/order.hpp"
#include "simd/simd.hpp"

namespace repdl::cpu {

struct MicroTile {
  const float* a;  // a[k * mr + i], or where it is read in place a[offset[k] + i]
  const float* b;  // b[k * b_width + j], or b[offset[k] + j]
  const std::int64_t* offset;
  std::int64_t kc, chunk;  // kc terms, in chunks
  int local_levels;        // levels of the tree that are empty before and after a piece
  int mr, b_width;
  int rows, columns;   // of the tile that exist
  bool resume;         // the chain goes on from `chain`, else from +0
  bool chunk_done;     // the last chain ends here and enters the tree
  bool last;           // the tree ends here and goes to `c`
  std::int64_t index;  // of the first chunk
  float* level;        // this tile's partial sum at level local_levels; the next is level_stride further
  std::int64_t level_stride;
  float* chain;
  float* c;
  std::int64_t ldc;
  bool transposed;  // c[j * ldc + i] instead of c[i * ldc + j]
  const float* row_bias;
  const float* column_bias;
};

constexpr int max_local_levels = 4;

using MicroKernel = void (*)(const MicroTile&);

// Which operand is read in place, the other one being packed. With b, `offset` goes on for
// prefetch_ahead elements more than there are terms.
enum class Unpacked { none, a, b };
constexpr int prefetch_ahead = 12;

// What fits the registers: rows * vectors accumulators, one row of B, and of A one broadcast, or
// where products are by lanes, whole vectors.
constexpr int max_rows = Vec::registers < 32 ? 6 : Vec::lane_products ? 12 : 14;
constexpr int max_vectors(int rows) {
  const int left = Vec::lane_products ? (rows + Vec::width - 1) / Vec::width : 2;
  const int fit = (Vec::registers - left) / (rows + 1);
  return fit < 1 ? 1 : fit > 4 ? 4 : fit;
}
constexpr int max_rows_of(int vectors) {
  int rows = max_rows;
  while (max_vectors(rows) < vectors) --rows;
  return rows;
}

// The kernel for a tile of `rows` rows and `vectors` vectors.
MicroKernel micro_kernel(int rows, int vectors, Unpacked unpacked);

}  // namespace repdl::cpu
