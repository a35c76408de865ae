// Operands of a product as micro-panels.
//
// Operands come through packers, so that a convolution is this same product:
//   packer.pack(first, count, width, k0, kc, dst): panel dst[k * width + i] of rows (or
//   columns) first .. first + count, zero from count to width, for k0 <= k < k0 + kc.
// A `Prepacked` operand has been packed once for many products. An operand in runs
// (RunOperand) is not packed: its panels are pieces of contiguous runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/routes.hpp"
#include "gemm/tiling.hpp"
#include "simd/simd.hpp"

namespace repdl::cpu {

constexpr std::int64_t pack_slack = Vec::width;  // floats that packing may write past a panel

// A micro-panel: which rows (columns) of the product it is, and the elements of the first k.
struct Panel {
  std::int64_t first;
  int size;
  const float* data;
};

// ---- Packed: panels of one piece of k, one after the other

struct PackedPanels {
  static constexpr bool unpacked = false;
  const float* data;
  std::int64_t first, count, kc;  // rows (columns) first .. first + count
  int width;

  Panel panel(std::int64_t p) const {
    const std::int64_t at = p * width;
    return {first + at, static_cast<int>(std::min<std::int64_t>(width, count - at)), data + at * kc};
  }
  static const std::int64_t* offset() { return nullptr; }
};

// All panels of `count` rows (columns) from `first` on, for one piece of k. Packers that read
// along the panels do it a few k at a time: a whole row of the matrix while it is in L1.
template <class Packer>
PackedPanels pack_block(const Packer& packer, std::int64_t first, std::int64_t count, int width, std::int64_t k0,
                        std::int64_t kc, float* dst) {
  const std::int64_t step = packer.reads_along_panels() ? 16 : kc;
  for (std::int64_t k = 0; k < kc; k += step)
    for (std::int64_t i = 0; i < count; i += width)
      packer.pack(first + i, std::min<std::int64_t>(width, count - i), width, k0 + k, std::min(step, kc - k),
                  dst + i * kc + k * width);
  return {dst, first, count, kc, width};
}

// The same where one block of rows uses each panel: it is packed then, in the place of the one before, in L1 or L2.
template <class Packer>
struct PanelsOnce {
  static constexpr bool unpacked = false;
  const Packer& packer;
  std::int64_t first, count, k0, kc;
  int width;
  float* dst;

  Panel panel(std::int64_t p) const {
    const std::int64_t at = p * width;
    const int size = static_cast<int>(std::min<std::int64_t>(width, count - at));
    if (kc > 0) packer.pack(first + at, size, width, k0, kc, dst);
    return {first + at, size, dst};
  }
  static const std::int64_t* offset() { return nullptr; }
};

template <class Operand, class = void>
constexpr bool is_packer = false;
template <class Operand>
constexpr bool is_packer<Operand, std::void_t<decltype(&Operand::pack)>> = true;

// The panels of one block of rows of the other operand.
template <class Operand>
auto panels_once(const Operand& operand, std::int64_t first, std::int64_t count, int width, std::int64_t k0,
                 std::int64_t kc, float* dst) {
  if constexpr (is_packer<Operand>)
    return PanelsOnce<Operand>{operand, first, count, k0, kc, width, dst};
  else
    return pack_block(operand, first, count, width, k0, kc, dst);
}

template <class Packer>
std::int64_t packed_floats(const Packer&, std::int64_t count, std::int64_t kc) {
  return count * kc + pack_slack;
}

// ---- Packed as a whole, for the pieces and panels that a product will ask for

class Prepacked {
 public:
  static std::int64_t floats(std::int64_t m, std::int64_t K, int width) {
    return (m + width - 1) / width * width * K + pack_slack;
  }

  template <class Packer>
  Prepacked(const Packer& packer, std::int64_t m, std::int64_t K, std::int64_t chunk, int width, float* storage)
      : data_(storage), rows_((m + width - 1) / width * width) {
    for_each_piece(K, chunk ? chunk : std::max<std::int64_t>(K, 1), [&](const Piece& piece) {
      if (piece.k0 > 0) REPDL_ROUTE("weights of several pieces");
      pack_block(packer, 0, m, width, piece.k0, piece.kc, storage + piece.k0 * rows_);
    });
  }

  const float* block(std::int64_t first, std::int64_t k0, std::int64_t kc) const {
    return data_ + k0 * rows_ + first * kc;
  }

 private:
  const float* data_;
  std::int64_t rows_;
};

inline PackedPanels pack_block(const Prepacked& packed, std::int64_t first, std::int64_t count, int width,
                               std::int64_t k0, std::int64_t kc, float*) {
  return {packed.block(first, k0, kc), first, count, kc, width};
}
inline std::int64_t packed_floats(const Prepacked&, std::int64_t, std::int64_t) { return 0; }

// ---- In place: for each k runs of contiguous floats, from offset[k] on

// Where run r starts: groups of `group` runs, group_stride apart, the runs of one run_stride apart.
struct RunLayout {
  std::int64_t length;  // of a run
  std::int64_t group, group_stride, run_stride;

  std::int64_t start(std::int64_t run) const { return run / group * group_stride + run % group * run_stride; }
};

// Panels are pieces of one run, multiples of `unit`, as even as they can be.
class RunOperand {
 public:
  RunOperand(const float* data, const std::int64_t* offset, const RunLayout& runs, int width, int unit)
      : data_(data), offset_(offset), runs_(runs), width_(width), unit_(unit),
        panels_((runs.length + width - 1) / width), units_((runs.length + unit - 1) / unit) {}

  // The rows (columns) of `count` runs, as a product counts them: with gaps where panels are shorter
  // than the widest.
  std::int64_t extent(std::int64_t count) const { return count * panels_ * width_; }

  Panel panel(std::int64_t p) const {
    const std::int64_t run = p / panels_, index = p - run * panels_, begin = edge(index), end = edge(index + 1);
    return {run * runs_.length + begin, static_cast<int>(end - begin), data_ + runs_.start(run) + begin};
  }
  const std::int64_t* offset() const { return offset_; }

 private:
  std::int64_t edge(std::int64_t index) const { return std::min(runs_.length, units_ * index / panels_ * unit_); }

  const float* data_;
  const std::int64_t* offset_;
  RunLayout runs_;
  std::int64_t width_, unit_;    // of the widest panel
  std::int64_t panels_, units_;  // of a run
};

// Panels of a RunOperand, from `first` on.
struct RunPanels {
  static constexpr bool unpacked = true;
  const RunOperand& operand;
  std::int64_t first, k0;

  Panel panel(std::int64_t p) const { return operand.panel(first + p); }
  const std::int64_t* offset() const { return operand.offset() + k0; }
};

inline RunPanels pack_block(const RunOperand& operand, std::int64_t first, std::int64_t, int width, std::int64_t k0,
                            std::int64_t, float*) {
  return {operand, first / width, k0};
}
inline std::int64_t packed_floats(const RunOperand&, std::int64_t, std::int64_t) { return 0; }

// ---- A matrix of any strides: element (i, k) at data[i * outer + k * inner]

struct StridedPacker {
  const float* data;
  std::int64_t outer;  // stride of the row (of A) or column (of B)
  std::int64_t inner;  // stride of k

  bool reads_along_panels() const { return outer == 1 && inner != 1; }

  void pack(std::int64_t first, std::int64_t count, int width, std::int64_t k0, std::int64_t kc, float* dst) const {
    const float* src = data + first * outer + k0 * inner;
    if (outer == 1 && count == width) {
      // Whole vectors: the overshoot of a row is overwritten by the next one.
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
    for (std::int64_t i = (count - 1) / W * W; i >= 0; i -= W) {  // the tile that overshoots first
      const std::int64_t rows = std::min(W, count - i);
      if (kc < W) {
        transpose_narrow(src + i * outer, outer, rows, kc, dst + i, width);
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

  // Fewer columns than a vector has, through two whole tiles in L1.
  static void transpose_narrow(const float* src, std::int64_t outer, std::int64_t rows, std::int64_t columns,
                               float* dst, std::int64_t width) {
    REPDL_ROUTE("pack: fewer terms than a vector");
    constexpr int W = Vec::width;
    alignas(64) float tile[W * W], transposed[W * W];
    for (int i = 0; i < W; ++i)
      (i < rows ? Vec::load(src + i * outer, static_cast<int>(columns)) : Vec::zero()).store(tile + i * W);
    transpose(tile, W, transposed, W);
    for (int k = 0; k < columns; ++k) Vec::load(transposed + k * W).store(dst + k * width);
  }
};

}  // namespace repdl::cpu
