// Operands of attention: one head of a tensor, and the columns of a product packed once for many.
#pragma once

#include <cmath>
#include <limits>

#include "gemm/gemm.hpp"

namespace repdl::cpu::attention {

// (batch, heads, rows, columns) of any strides, one head of it.
struct Matrix {
  float* data;
  std::int64_t rows, columns, row, column;  // sizes, and strides

  Matrix(const Tensor& tensor, std::int64_t head)
      : data(tensor.as<float>() + head / tensor.size[1] * tensor.stride[0] + head % tensor.size[1] * tensor.stride[1]),
        rows(tensor.size[2]), columns(tensor.size[3]), row(tensor.stride[2]), column(tensor.stride[3]) {}

  // As operands of a product: rows from `first` on, or their columns as the columns of B.
  StridedPacker by_row(std::int64_t first = 0) const { return {data + first * row, row, column}; }
  StridedPacker by_column(std::int64_t first = 0) const { return {data + first * row, column, row}; }

  // The largest magnitude; infinity where a value is not finite.
  float largest() const {
    float result = 0;
    bool is_finite = true;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        const float x = std::fabs(data[i * row + j * column]);
        is_finite &= x <= std::numeric_limits<float>::max();
        result = x > result ? x : result;
      }
    return is_finite ? result : std::numeric_limits<float>::infinity();
  }
};

// The columns of B packed once for many products, all k of a panel one after the other: a product may have fewer.
class Panels {
 public:
  Panels(const StridedPacker& packer, std::int64_t n, std::int64_t K)
      : K_(K), width_(static_cast<int>(vectors(n)) * Vec::width),
        packed_((n + width_ - 1) / width_ * width_ * K + pack_slack) {
    for (std::int64_t j = 0; j < n; j += width_)
      packer.pack(j, std::min<std::int64_t>(width_, n - j), width_, 0, K, packed_.data() + j * K);
  }

  // Of a panel; as many as a tile of any height has.
  static std::int64_t vectors(std::int64_t n) {
    return std::min<std::int64_t>(max_vectors(max_rows), (n + Vec::width - 1) / Vec::width);
  }

  // C (m, n) of the first n columns and K terms.
  void multiply(std::int64_t m, std::int64_t n, std::int64_t K, std::int64_t chunk, const StridedPacker& a,
                const Output& out) const {
    Tiling tile(m, n, K);
    tile.nv = width_ / Vec::width;
    tile.nc = (n + width_ - 1) / width_ * width_;
    tile.ms = (m + tile.mc - 1) / tile.mc * tile.mc;
    gemm(m, n, K, chunk, a, *this, out, tile);
  }

  struct Block {
    static constexpr bool in_place = false;
    const Panels& panels;
    std::int64_t first, count, k0;

    Panel panel(std::int64_t p) const {
      const std::int64_t at = p * panels.width_;
      return {first + at, static_cast<int>(std::min<std::int64_t>(panels.width_, count - at)),
              panels.packed_.data() + (first + at) * panels.K_ + k0 * panels.width_};
    }
    static const std::int64_t* offset() { return nullptr; }
  };

 private:
  std::int64_t K_;
  int width_;
  Scratch<float> packed_;
};

inline Panels::Block pack_block(const Panels& panels, std::int64_t first, std::int64_t count, int, std::int64_t k0,
                                std::int64_t, float*) {
  return {panels, first, count, k0};
}
inline std::int64_t packed_floats(const Panels&, std::int64_t, std::int64_t) { return 0; }

inline bool has_minus_zero(const float* x, std::int64_t n) {
  int found = 0;
  for (std::int64_t i = 0; i < n; ++i) found |= x[i] == 0.0f && std::signbit(x[i]);
  return found != 0;
}

}  // namespace repdl::cpu::attention
