// The dot products of the contract as a packed matrix product: C[i, j] = sum_k A[i, k] B[k, j].
//
// Order of one output element, whatever the tiles are: chains of `chunk` fused
// multiply-adds from +0 in ascending k, joined by the tree (matmul.md). The loops follow
// Van Zee and van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS
// Functionality", ACM TOMS 41(3), 2015:
//
//   jc   columns of C, nc at a time
//   is   rows of C, ms at a time: their partial sums are kept between pieces of k
//   pc   pieces of k: packs a block of B, for L3, or where one block of rows uses it, each panel in jr
//   ic   rows, mc at a time: packs a block of A, for L2
//   jr   micro-panels of B, nr columns each, in L1 or L2
//   ir   micro-panels of A, mr rows each: a micro-tile in registers (micro_kernel.cpp)
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/routes.hpp"
#include "base/scratch.hpp"
#include "gemm/micro_kernel.hpp"
#include "gemm/packing.hpp"
#include "gemm/tiling.hpp"

namespace repdl::cpu {

// Where C goes: row-major with a leading dimension, plus an optional bias a row or column.
// Columns may be those of several images, `image` columns each, image_stride apart.
struct Output {
  float* data;
  std::int64_t ld;
  const float* row_bias = nullptr;
  const float* column_bias = nullptr;
  std::int64_t image = std::int64_t{1} << 62;
  std::int64_t image_stride = 0;
  bool transposed = false;  // rows and columns exchanged, in memory only

  float* at(std::int64_t row, std::int64_t column) const {
    if (transposed) std::swap(row, column);
    return data + column / image * image_stride + row * ld + column % image;
  }
};

template <class PackA, class PackB>
class Gemm {
 public:
  Gemm(std::int64_t m, std::int64_t n, std::int64_t K, std::int64_t chunk, const PackA& a, const PackB& b,
       const Output& out, const Tiling& tile)
      : m_(m), n_(n), K_(K), chunk_(chunk ? chunk : std::max<std::int64_t>(K, 1)), pack_a_(a), pack_b_(b), out_(out),
        tile_(tile), mr_(tile.mr), nr_(static_cast<int>(tile.nr())) {}

  void loop_jc() const {
    for (std::int64_t j0 = 0; j0 < n_; j0 += tile_.nc) {
      if (j0 > 0) REPDL_ROUTE("product: several blocks of columns");
      loop_is(j0, std::min(tile_.nc, n_ - j0));
    }
  }

 private:
  // Rows i0 .. i0 + m and columns j0 .. j0 + n of C, and memory for them. A micro-tile has a partial
  // sum a level of the tree, then the unfinished chain of a chunk.
  struct Block {
    std::int64_t i0, m, j0, n;
    std::int64_t m_panels = 0, n_panels = 0;
    std::int64_t levels = 0, level_size = 0;
    float *a = nullptr, *b = nullptr, *partial = nullptr;
    bool once = false;  // each panel of B is used by one block of A, and packed then
  };

  void loop_is(std::int64_t j0, std::int64_t n) const {
    for (std::int64_t i0 = 0; i0 < m_; i0 += tile_.ms) {
      if (i0 > 0) REPDL_ROUTE("product: several blocks of rows");
      Block block{i0, std::min(tile_.ms, m_ - i0), j0, n};
      block.m_panels = (block.m + mr_ - 1) / mr_;
      block.n_panels = (n + nr_ - 1) / nr_;
      const std::int64_t chunks = std::max<std::int64_t>(1, (K_ + chunk_ - 1) / chunk_), piece = piece_length(chunk_);
      const bool resumes = std::min(chunk_, K_) > piece;
      block.levels = std::max(0, tree_levels(chunks) - piece_levels(chunk_));
      block.level_size = block.m_panels * block.n_panels * mr_ * nr_;

      const std::int64_t depth = std::min(piece, std::max<std::int64_t>(K_, 1));
      const Scratch<float> a(packed_floats(pack_a_, tile_.mc, depth));
      block.once = block.m <= tile_.mc;
      const Scratch<float> b(packed_floats(pack_b_, (block.once ? 1 : block.n_panels) * nr_, depth));
      const Scratch<float> partial((block.levels + (resumes ? 1 : 0)) * block.level_size);
      block.a = a.data();
      block.b = b.data();
      block.partial = partial.data();
      loop_pc(block);
    }
  }

  void loop_pc(const Block& block) const {
    for_each_piece(K_, chunk_, [&](const Piece& piece) {
      MicroTile tile;
      tile.kc = piece.kc;
      tile.chunk = std::min(chunk_, piece.kc);
      tile.local_levels = piece_levels(chunk_);
      tile.mr = mr_;
      tile.b_width = nr_;
      tile.transposed = out_.transposed;
      tile.resume = piece.resume;
      tile.chunk_done = piece.chunk_done;
      tile.last = piece.last;
      tile.index = piece.chunk;
      tile.level_stride = block.level_size;
      if (block.once) {
        REPDL_ROUTE("product: one block of rows");
        loop_ic(block, piece, panels_once(pack_b_, block.j0, block.n, nr_, piece.k0, piece.kc, block.b), tile);
      } else {
        loop_ic(block, piece, pack_block(pack_b_, block.j0, block.n, nr_, piece.k0, piece.kc, block.b), tile);
      }
    });
  }

  template <class PanelsB>
  void loop_ic(const Block& block, const Piece& piece, const PanelsB& b, MicroTile& tile) const {
    for (std::int64_t first = 0; first < block.m; first += tile_.mc) {
      if (first > 0) REPDL_ROUTE("product: several blocks of A");
      const std::int64_t rows = std::min(tile_.mc, block.m - first);
      const auto a = pack_block(pack_a_, block.i0 + first, rows, mr_, piece.k0, piece.kc, block.a);
      tile.offset = a.unpacked ? a.offset() : b.offset();
      loop_jr(block, first, rows, a, b, tile);
    }
  }

  template <class PanelsA, class PanelsB>
  void loop_jr(const Block& block, std::int64_t first, std::int64_t rows, const PanelsA& a, const PanelsB& b,
               MicroTile& tile) const {
    constexpr Unpacked unpacked = PanelsA::unpacked ? Unpacked::a : PanelsB::unpacked ? Unpacked::b : Unpacked::none;
    for (std::int64_t q = 0; q < block.n_panels; ++q) {
      const Panel columns = b.panel(q);
      tile.b = columns.data;
      tile.columns = columns.size;
      tile.column_bias = out_.column_bias ? out_.column_bias + columns.first : nullptr;
      tile.level = block.partial + (q * block.m_panels + first / mr_) * mr_ * nr_;
      tile.chain = tile.level + block.levels * block.level_size;
      loop_ir<unpacked>(rows, columns, a, tile);
    }
  }

  template <Unpacked unpacked, class PanelsA>
  void loop_ir(std::int64_t rows, const Panel& columns, const PanelsA& a, MicroTile& tile) const {
    const int vectors = (columns.size + Vec::width - 1) / Vec::width;
    const bool one_image = out_.transposed || columns.first % out_.image + columns.size <= out_.image;
    alignas(64) float edge[max_rows * 4 * Vec::width];  // a tile of columns of several images
    for (std::int64_t p = 0; p * mr_ < rows; ++p, tile.level += mr_ * nr_, tile.chain += mr_ * nr_) {
      const Panel panel = a.panel(p);
      tile.a = panel.data;
      tile.rows = panel.size;
      tile.c = one_image ? out_.at(panel.first, columns.first) : edge;
      tile.ldc = one_image ? out_.ld : nr_;
      tile.row_bias = out_.row_bias ? out_.row_bias + panel.first : nullptr;
      micro_kernel(panel.size, vectors, unpacked)(tile);
      if (one_image || !tile.last) continue;
      REPDL_ROUTE("tile over several images");
      for (std::int64_t i = 0; i < panel.size; ++i)
        for (std::int64_t j = 0; j < columns.size; ++j)
          *out_.at(panel.first + i, columns.first + j) = edge[i * nr_ + j];
    }
  }

  std::int64_t m_, n_, K_, chunk_;
  const PackA& pack_a_;
  const PackB& pack_b_;
  const Output& out_;
  const Tiling& tile_;
  int mr_, nr_;
};

// All of C, by the calling thread.
template <class PackA, class PackB>
void gemm(std::int64_t m, std::int64_t n, std::int64_t K, std::int64_t chunk, const PackA& a, const PackB& b,
          const Output& out, const Tiling& tile) {
  Gemm<PackA, PackB>(m, n, K, chunk, a, b, out, tile).loop_jc();
}

}  // namespace repdl::cpu
