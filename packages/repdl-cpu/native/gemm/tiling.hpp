// Tile sizes of a product, and the pieces that k is cut into.
//
// Tiles are tuning knobs. What k is cut by is the contract: a piece never crosses the end of a
// chunk, and a chain that goes on in the next piece is resumed, not restarted.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/tuned.hpp"
#include "gemm/micro_kernel.hpp"
#include "repdl/contract/order.hpp"

namespace repdl::cpu {

// k of one packed piece: whole chunks, as many as a power of two makes of max_piece, so
// that they join in L1; or a part of a longer chunk.
constexpr std::int64_t max_piece = tuned(1024, 256);

inline int piece_levels(std::int64_t chunk) {
  int levels = 0;
  while (levels < max_local_levels && (chunk << (levels + 1)) <= max_piece) ++levels;
  return levels;
}

inline std::int64_t piece_length(std::int64_t chunk) {
  return chunk <= max_piece ? chunk << piece_levels(chunk) : max_piece;
}

struct Piece {
  std::int64_t k0, kc;  // terms k0 .. k0 + kc
  std::int64_t chunk;   // the number of the first chunk
  bool resume;          // the first chunk began in an earlier piece
  bool chunk_done;      // the last chunk ends here
  bool last;            // k ends here
};

// Calls body(piece) for all pieces of k in order; for one of no terms where there are none.
template <class Body>
void for_each_piece(std::int64_t K, std::int64_t chunk, const Body& body) {
  const std::int64_t length = piece_length(chunk);
  // One long chunk in several pieces, or one piece of several chunks.
  const std::int64_t span = std::max(chunk, length);
  std::int64_t begin = 0;
  do {
    const std::int64_t end = std::min(K, begin + span);
    std::int64_t k0 = begin;
    do {
      const std::int64_t kc = std::min(length, end - k0);
      const bool done = k0 + kc >= end;
      body(Piece{k0, kc, begin / chunk, k0 > begin, done, done && end >= K});
      k0 += kc;
    } while (k0 < end);
    begin = end;
  } while (begin < K);
}

// Tile sizes for a product of M x N outputs with K terms.
struct Tiling {
  int mr;           // rows of a micro-tile
  int nv;           // vectors of a micro-tile
  std::int64_t mc;  // rows of a packed block of A, a multiple of mr
  std::int64_t ms;  // rows that share a packed block of B, a multiple of mc
  std::int64_t nc;  // columns of a packed block of B, a multiple of nr

  // Floats of a packed block of A, which stays in L2, and of B, in L3.
  static constexpr std::int64_t a_block = tuned(112 * 1024, 1), b_block = tuned(512 * 1024, 1);

  Tiling() = default;

  // Tiles of so many vectors at most, but of few rows of as many as the registers take. Columns that are read in place
  // come in runs: no panel is longer, and no block is packed.
  Tiling(std::int64_t m, std::int64_t n, std::int64_t K, std::int64_t run = 0, int most_vectors = wide_tile) {
    const std::int64_t depth = std::max<std::int64_t>(1, std::min(K, max_piece));
    const std::int64_t vectors = std::max<std::int64_t>(1, ((run ? run : n) + Vec::width - 1) / Vec::width);
    nv = static_cast<int>(even_part(vectors, most_vectors));
    mr = static_cast<int>(even_part(m, max_rows_of(nv)));
    nv = static_cast<int>(even_part(vectors, std::max(most_vectors, max_vectors(mr))));  // few rows take more
    const std::int64_t m_panels = (m + mr - 1) / mr, most = std::clamp<std::int64_t>(a_block / depth, mr, 252) / mr;
    mc = even_part(m_panels, most) * mr;
    const std::int64_t wide =
        run ? 4096 / nr() * nr() : std::clamp<std::int64_t>(b_block / depth / nr(), 1, 2048 / nr()) * nr();
    nc = std::min<std::int64_t>((n + nr() - 1) / nr() * nr(), wide);
    ms = std::min((m + mc - 1) / mc * mc, rows_with_levels(K));
  }

  // For rows read in place, in panels of `width` rows of which a piece has `read` floats.
  static Tiling of_panels(int width, std::int64_t n, std::int64_t K, std::int64_t read) {
    Tiling tile;
    tile.mr = width;
    const std::int64_t vectors = (n + Vec::width - 1) / Vec::width, most = max_vectors(width);
    const std::int64_t panels = (vectors + most - 1) / most;
    tile.nv = static_cast<int>((vectors + panels - 1) / panels);
    tile.nc = panels * tile.nr();
    tile.mc = width;
    tile.mc = std::min(std::clamp<std::int64_t>(a_block / std::max<std::int64_t>(read, 1), 4, 256) * width,
                       tile.rows_with_levels(K));
    tile.ms = tile.mc;
    return tile;
  }

  // Columns of a micro-tile.
  std::int64_t nr() const { return static_cast<std::int64_t>(nv) * Vec::width; }

 private:
  // Vectors of a tile where there is a choice. With 32 registers, 6 rows of 4 vectors take fewer loads a product than
  // 14 rows of 2: on an Ice Lake core 165 GFLOP/s instead of 150.
  static constexpr int wide_tile = Vec::width == 16 ? 4 : max_vectors(max_rows);

  // The largest part where n is cut into parts of `most` at most, as even as they can be.
  static std::int64_t even_part(std::int64_t n, std::int64_t most) {
    const std::int64_t parts = (n + most - 1) / most;
    return (n + parts - 1) / parts;
  }

  // Where k has several pieces, every output of a block keeps partial sums: as many rows as there is room for.
  std::int64_t rows_with_levels(std::int64_t K) const {
    const int levels = K > max_piece ? tree_levels((K + max_piece - 1) / max_piece) + 1 : 0;
    return levels ? std::max<std::int64_t>(1, b_block * 2 / nc / levels / mc) * mc : std::int64_t{1} << 40;
  }
};

}  // namespace repdl::cpu
