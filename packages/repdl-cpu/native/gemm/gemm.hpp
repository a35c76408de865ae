// The dot products of the contract as a packed matrix product: C[i, j] = sum_k A[i, k] B[k, j].
//
// Order of one output element, whatever the tiles are: chains of `chunk` fused
// multiply-adds from +0 in ascending k, joined by the tree (matmul.md). The loops follow
// Van Zee and van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS
// Functionality", ACM TOMS 41(3), 2015: blocks of C, pieces of k, panels, micro-tiles.
// Tiles are tuning knobs. What k is cut by is the contract: a piece never crosses the end
// of a chunk, and a chain that goes on in the next piece is resumed, not restarted.
//
// Operands come through packers, so that a convolution is this same product:
//   packer.pack(first, count, width, k0, kc, dst): panel dst[k * width + i] of rows (or
//   columns) first .. first + count, zero from count to width, for k0 <= k < k0 + kc.
// A `Prepacked` operand has been packed once for many products. An operand in runs
// (RunOperand) is read where it lies: its panels are pieces of contiguous runs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/micro_kernel.hpp"
#include "repdl/contract/order.hpp"
#include "base/routes.hpp"
#include "base/threads.hpp"

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

// k of one packed piece: whole chunks, as many as a power of two makes of max_piece, so
// that they join in the nearest cache; or a part of a longer chunk.
constexpr std::int64_t max_piece = 1024;

inline int piece_levels(std::int64_t chunk) {
  int levels = 0;
  while (levels < max_local_levels && (chunk << (levels + 1)) <= max_piece) ++levels;
  return levels;
}

inline std::int64_t piece_length(std::int64_t chunk) {
  return chunk <= max_piece ? chunk << piece_levels(chunk) : max_piece;
}

// Tile sizes for a product of M x N outputs with K terms.
struct Tiling {
  int mr;           // rows of a micro-tile
  int nv;           // vectors of a micro-tile
  std::int64_t mc;  // rows of a packed block of A, a multiple of mr
  std::int64_t ms;  // rows that share a packed block of B, a multiple of mc
  std::int64_t nc;  // columns of a packed block of B, a multiple of nv * Vec::width

  static constexpr std::int64_t near = 112 * 1024, far = 512 * 1024;  // floats of a block of A, of B

  Tiling() = default;

  // Columns that are read in place come in runs: no panel is longer, and no block is packed.
  Tiling(std::int64_t m, std::int64_t n, std::int64_t K, std::int64_t run = 0) {
    const std::int64_t depth = std::max<std::int64_t>(1, std::min(K, max_piece));
    const std::int64_t panels = (m + max_rows - 1) / max_rows;
    mr = static_cast<int>((m + panels - 1) / panels);
    const std::int64_t vectors = ((run ? run : n) + Vec::width - 1) / Vec::width;
    nv = static_cast<int>(std::min<std::int64_t>(max_vectors(mr), vectors));
    const std::int64_t nr = static_cast<std::int64_t>(nv) * Vec::width;
    const std::int64_t m_panels = (m + mr - 1) / mr, most = std::clamp<std::int64_t>(near / depth / mr, 1, 18);
    const std::int64_t blocks = (m_panels + most - 1) / most;
    mc = (m_panels + blocks - 1) / blocks * mr;
    // With one panel of rows, a packed panel of columns is used once: it stays in the nearest cache.
    const std::int64_t wide = run           ? 4096 / nr * nr
                              : panels == 1 ? nr
                                            : std::clamp<std::int64_t>(far / depth / nr, 1, 2048 / nr) * nr;
    nc = std::min<std::int64_t>((n + nr - 1) / nr * nr, wide);
    ms = std::min((m + mc - 1) / mc * mc, rows_with_levels(K));
  }

  // For rows read in place, in panels of `width` rows of which a piece has `read` floats.
  static Tiling of_panels(int width, std::int64_t n, std::int64_t K, std::int64_t read) {
    Tiling tile;
    tile.mr = width;
    const std::int64_t vectors = (n + Vec::width - 1) / Vec::width, most = max_vectors(width);
    const std::int64_t panels = (vectors + most - 1) / most;
    tile.nv = static_cast<int>((vectors + panels - 1) / panels);
    tile.nc = panels * tile.nv * Vec::width;
    tile.mc = width;
    tile.mc = std::min(std::clamp<std::int64_t>(near / std::max<std::int64_t>(read, 1), 4, 256) * width,
                       tile.rows_with_levels(K));
    tile.ms = tile.mc;
    return tile;
  }

 private:
  // Where k has several pieces, every output of a block keeps partial sums: rows that have the place.
  std::int64_t rows_with_levels(std::int64_t K) const {
    const int levels = K > max_piece ? tree_levels((K + max_piece - 1) / max_piece) + 1 : 0;
    return levels ? std::max<std::int64_t>(1, far * 2 / nc / levels / mc) * mc : std::int64_t{1} << 40;
  }
};

// One side of a product whose elements lie in memory as they are needed: for each k runs of
// contiguous floats, from offset[k] on. Panels are pieces of one run, of even length; the index
// of an element counts panels of `width`, so it has gaps where panels are shorter.
struct RunOperand {
  const float* data;
  const std::int64_t* offset;
  std::int64_t length;  // of a run
  int width;            // of the widest panel
  int unit;             // what panels are a multiple of, but the last of a run
  // Where run r starts: groups of `together` runs, far_step apart, the runs of one near_step apart.
  std::int64_t together, far_step, near_step;

  std::int64_t panels() const { return (length + width - 1) / width; }
  std::int64_t size(std::int64_t panel) const { return edge(panel % panels() + 1) - edge(panel % panels()); }
  std::int64_t index(std::int64_t panel) const { return panel / panels() * length + edge(panel % panels()); }
  const float* at(std::int64_t panel) const {
    const std::int64_t run = panel / panels();
    return data + run / together * far_step + run % together * near_step + edge(panel % panels());
  }

 private:
  std::int64_t edge(std::int64_t panel) const {
    return std::min(length, (length + unit - 1) / unit * panel / panels() * unit);
  }
};

constexpr std::int64_t pack_slack = Vec::width;  // floats that packing may write past a panel

// Scratch slots of a thread.
enum Slot { slot_a = 0, slot_b = 1, slot_levels = 2, slot_user = 3 };

// Panels of one piece of k, one after the other.
struct PackedPanels {
  static constexpr bool in_place = false;
  const float* data;
  std::int64_t stride;
  const float* at(std::int64_t panel) const { return data + panel * stride; }
  static const std::int64_t* offset() { return nullptr; }
};

// All panels of `count` rows (columns) from `first` on, for one piece of k. Packers that read
// along the panels do it a few k at a time: a whole row of the matrix while it is near.
template <class Packer>
PackedPanels pack_block(const Packer& packer, std::int64_t first, std::int64_t count, int width, std::int64_t k0,
                        std::int64_t kc, float* dst) {
  const std::int64_t step = packer.reads_along_panels() ? 16 : kc;
  for (std::int64_t k = 0; k < kc; k += step)
    for (std::int64_t i = 0; i < count; i += width)
      packer.pack(first + i, std::min<std::int64_t>(width, count - i), width, k0 + k, std::min(step, kc - k),
                  dst + i * kc + k * width);
  return {dst, width * kc};
}

// Which rows (columns) of the product a panel is: the number of the first one, and how many.
template <class Packer>
std::int64_t panel_first(const Packer&, std::int64_t first, int) {
  return first;
}
template <class Packer>
int panel_size(const Packer&, std::int64_t first, std::int64_t end, int width) {
  return static_cast<int>(std::min<std::int64_t>(width, end - first));
}
template <class Packer>
std::int64_t packed_floats(const Packer&, std::int64_t count, std::int64_t kc) {
  return count * kc + pack_slack;
}

// An operand packed as a whole, for the pieces and panels that gemm() will ask for.
class Prepacked {
 public:
  static std::int64_t floats(std::int64_t m, std::int64_t K, int width) {
    return (m + width - 1) / width * width * K + pack_slack;
  }

  template <class Packer>
  Prepacked(const Packer& packer, std::int64_t m, std::int64_t K, std::int64_t chunk, int width, float* storage)
      : data_(storage), rows_((m + width - 1) / width * width) {
    if (!chunk) chunk = std::max<std::int64_t>(K, 1);
    const std::int64_t piece = piece_length(chunk), span = std::max(chunk, piece);
    for (std::int64_t begin = 0; begin < K; begin += span)
      for (std::int64_t k0 = begin, end = std::min(K, begin + span); k0 < end; k0 += piece) {
        if (k0 > 0) REPDL_ROUTE("weights of several pieces");
        pack_block(packer, 0, m, width, k0, std::min(piece, end - k0), storage + k0 * rows_);
      }
  }

  const float* block(std::int64_t first, std::int64_t k0, std::int64_t kc) const {
    return data_ + k0 * rows_ + first * kc;
  }

 private:
  const float* data_;
  std::int64_t rows_;
};

inline PackedPanels pack_block(const Prepacked& packed, std::int64_t first, std::int64_t, int width, std::int64_t k0,
                               std::int64_t kc, float*) {
  return {packed.block(first, k0, kc), width * kc};
}
inline std::int64_t packed_floats(const Prepacked&, std::int64_t, std::int64_t) { return 0; }

// Panels of a RunOperand, from `first` on.
struct RunPanels {
  static constexpr bool in_place = true;
  const RunOperand& operand;
  std::int64_t first, k0;
  const float* at(std::int64_t panel) const { return operand.at(first + panel); }
  const std::int64_t* offset() const { return operand.offset + k0; }
};

inline RunPanels pack_block(const RunOperand& operand, std::int64_t first, std::int64_t, int width, std::int64_t k0,
                            std::int64_t, float*) {
  return {operand, first / width, k0};
}
inline std::int64_t panel_first(const RunOperand& operand, std::int64_t first, int width) {
  return operand.index(first / width);
}
inline int panel_size(const RunOperand& operand, std::int64_t first, std::int64_t, int width) {
  return static_cast<int>(operand.size(first / width));
}
inline std::int64_t packed_floats(const RunOperand&, std::int64_t, std::int64_t) { return 0; }

// One block of C, rows [i0, i0 + m) and columns [j0, j0 + n), by the calling thread.
template <class PackA, class PackB>
void gemm_block(std::int64_t i0, std::int64_t m, std::int64_t j0, std::int64_t n, std::int64_t K, std::int64_t chunk,
                const Tiling& tile, const PackA& pack_a, const PackB& pack_b, const Output& out) {
  const int mr = tile.mr;
  const std::int64_t nr = static_cast<std::int64_t>(tile.nv) * Vec::width;
  const std::int64_t m_panels = (m + mr - 1) / mr, n_panels = (n + nr - 1) / nr;
  const std::int64_t chunks = std::max<std::int64_t>(1, (K + chunk - 1) / chunk);
  const std::int64_t piece = piece_length(chunk);
  const int unused = piece_levels(chunk), levels = std::max(0, tree_levels(chunks) - unused);
  const std::int64_t tile_size = mr * nr, level_size = m_panels * n_panels * tile_size;

  const std::int64_t depth = std::min(piece, std::max<std::int64_t>(K, 1));
  float* a_space = scratch(slot_a, packed_floats(pack_a, tile.mc, depth));
  float* b_space = scratch(slot_b, packed_floats(pack_b, n_panels * nr, depth));
  // Level 0 .. levels - 1 of the tree, then the unfinished chain of a chunk.
  const bool resumes = std::min(chunk, K) > piece;
  float* level = scratch(slot_levels, (levels + (resumes ? 1 : 0)) * level_size);

  alignas(64) float edge[max_rows * 4 * Vec::width];  // a tile whose columns lie in two images

  // A span is one long chunk in several pieces, or one piece of several chunks.
  const std::int64_t span = std::max(chunk, piece);
  std::int64_t begin = 0;
  do {
    const std::int64_t end = std::min(K, begin + span);
    std::int64_t k0 = begin;
    do {
      const std::int64_t kc = std::min(piece, end - k0);
      const auto b = pack_block(pack_b, j0, n, static_cast<int>(nr), k0, kc, b_space);

      MicroTile step;
      step.kc = kc;
      step.chunk = std::min(chunk, kc);
      step.local_levels = piece_levels(chunk);
      step.mr = mr;
      step.b_width = static_cast<int>(nr);
      step.transposed = out.transposed;
      step.resume = k0 > begin;
      step.chunk_done = k0 + kc >= end;
      step.last = end >= K && step.chunk_done;
      step.index = begin / chunk;
      step.level_stride = level_size;
      for (std::int64_t first = 0; first < m; first += tile.mc) {
        const std::int64_t rows = std::min(tile.mc, m - first), first_panel = first / mr;
        if (first > 0) REPDL_ROUTE("product: several blocks of A");
        const auto a = pack_block(pack_a, i0 + first, rows, mr, k0, kc, a_space);
        constexpr InPlace in_place = a.in_place ? InPlace::a : b.in_place ? InPlace::b : InPlace::none;
        step.offset = a.in_place ? a.offset() : b.offset();
        for (std::int64_t q = 0; q < n_panels; ++q) {
          step.b = b.at(q);
          step.columns = panel_size(pack_b, j0 + q * nr, j0 + n, static_cast<int>(nr));
          const int nv = (step.columns + Vec::width - 1) / Vec::width;
          const std::int64_t column = panel_first(pack_b, j0 + q * nr, static_cast<int>(nr));
          step.column_bias = out.column_bias ? out.column_bias + column : nullptr;
          for (std::int64_t p = 0; p * mr < rows; ++p) {
            const std::int64_t row = panel_first(pack_a, i0 + first + p * mr, mr);
            step.a = a.at(p);
            step.rows = panel_size(pack_a, i0 + first + p * mr, i0 + m, mr);
            step.level = level + (q * m_panels + first_panel + p) * tile_size;
            step.chain = step.level + levels * level_size;
            const bool inside = out.transposed || column % out.image + step.columns <= out.image;
            step.c = inside ? out.at(row, column) : edge;
            step.ldc = inside ? out.ld : nr;
            step.row_bias = out.row_bias ? out.row_bias + row : nullptr;
            micro_kernel(step.rows, nv, in_place)(step);
            if (inside || !step.last) continue;
            REPDL_ROUTE("tile over several images");
            for (std::int64_t i = 0; i < step.rows; ++i)
              for (std::int64_t j = 0; j < step.columns; ++j) *out.at(row + i, column + j) = edge[i * nr + j];
          }
        }
      }
      k0 += kc;
    } while (k0 < end);
    begin = end;
  } while (begin < K);
}

// All of C, by the calling thread.
template <class PackA, class PackB>
void gemm(std::int64_t m, std::int64_t n, std::int64_t K, std::int64_t chunk, const PackA& pack_a, const PackB& pack_b,
          const Output& out, const Tiling& tile) {
  if (!chunk) chunk = std::max<std::int64_t>(K, 1);
  for (std::int64_t j = 0; j < n; j += tile.nc)
    for (std::int64_t i = 0; i < m; i += tile.ms) {
      if (j > 0) REPDL_ROUTE("product: several blocks of columns");
      if (i > 0) REPDL_ROUTE("product: several blocks of rows");
      gemm_block(i, std::min(tile.ms, m - i), j, std::min(tile.nc, n - j), K, chunk, tile, pack_a, pack_b, out);
    }
}

// A matrix of any strides as an operand: element (i, k) at data[i * outer + k * inner].
struct StridedPacker {
  const float* data;
  std::int64_t outer;  // stride of the row (of A) or column (of B)
  std::int64_t inner;  // stride of k

  bool reads_along_panels() const { return outer == 1 && inner != 1; }

  void pack(std::int64_t first, std::int64_t count, int width, std::int64_t k0, std::int64_t kc, float* dst) const {
    const float* src = data + first * outer + k0 * inner;
    if (outer == 1 && count == width) {
      // Whole vectors: what is written past a row is the place of the next ones.
      const int whole = width / Vec::width * Vec::width, rest = width - whole;
      REPDL_ROUTE("pack: along panels");
      for (std::int64_t k = 0; k < kc; ++k, src += inner, dst += width) {
        for (int i = 0; i < whole; i += Vec::width) Vec::load(src + i).store(dst + i);
        if (rest == 0) continue;
        const Vec last = Vec::load(src + whole, rest);
        if ((kc - k) * width >= whole + Vec::width)
          last.store(dst + whole);
        else
          last.store(dst + whole, rest);
      }
      return;
    }
    if (inner == 1) {
      REPDL_ROUTE("pack: along k");
      transpose_pack(src, outer, count, width, kc, dst);
      return;
    }
    REPDL_ROUTE("pack: any strides");
    for (std::int64_t k = 0; k < kc; ++k) {
      for (std::int64_t i = 0; i < count; ++i) dst[k * width + i] = src[i * outer + k * inner];
      for (std::int64_t i = count; i < width; ++i) dst[k * width + i] = 0.0f;
    }
  }

  // Rows of contiguous k. Tiles are stored as whole vectors: up to Vec::width floats after
  // a row may be written, those of the next row before it is, and pack_slack after the last.
  static void transpose_pack(const float* src, std::int64_t outer, std::int64_t count, int width, std::int64_t kc,
                             float* dst) {
    constexpr std::int64_t W = Vec::width;
    for (std::int64_t i = (count - 1) / W * W; i >= 0; i -= W) {  // the part that spills over first
      const std::int64_t rows = std::min(W, count - i);
      if (kc < W) {
        transpose_part(src + i * outer, outer, rows, kc, dst + i, width);
        continue;
      }
      for (std::int64_t k = 0; k < kc; k += W) {
        const std::int64_t at = std::min(k, kc - W);  // a last tile that would stick out is moved back
        transpose(src + i * outer + at, outer, dst + at * width + i, width, rows);
      }
    }
    if (count < width)
      for (std::int64_t k = 0; k < kc; ++k)
        for (std::int64_t i = count; i < width; ++i) dst[k * width + i] = 0.0f;
  }

  // A tile with missing columns, through two whole ones in the nearest cache.
  static void transpose_part(const float* src, std::int64_t outer, std::int64_t rows, std::int64_t columns, float* dst,
                             std::int64_t width) {
    REPDL_ROUTE("pack: fewer terms than a vector");
    constexpr int W = Vec::width;
    alignas(64) float tile[W * W], turned[W * W];
    for (int i = 0; i < W; ++i)
      (i < rows ? Vec::load(src + i * outer, static_cast<int>(columns)) : Vec::zero()).store(tile + i * W);
    transpose(tile, W, turned, W);
    for (int k = 0; k < columns; ++k) Vec::load(turned + k * W).store(dst + k * width);
  }
};

}  // namespace repdl::cpu
