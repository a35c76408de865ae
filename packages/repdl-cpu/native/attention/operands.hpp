// Operands of attention: one head of a tensor.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gemm/panels.hpp"
#include "repdl/contract/cast.hpp"

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

  // The largest magnitude; infinity where a value is not finite. Compared as integers, several at once: of floats the
  // compiler would compare one after the other.
  float largest() const {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    std::uint32_t most = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      const float* x = data + i * row;
      if (column == 1)
        for (std::int64_t j = 0; j < columns; ++j) most = std::max(most, magnitude(x[j]));
      else
        for (std::int64_t j = 0; j < columns; ++j) most = std::max(most, magnitude(x[j * column]));
    }
    return most < magnitude(infinity) ? bit_cast<float>(most) : infinity;
  }

 private:
  static std::uint32_t magnitude(float x) { return bit_cast<std::uint32_t>(x) & 0x7fffffffu; }
};

inline bool has_minus_zero(const float* x, std::int64_t n) {
  int found = 0;
  for (std::int64_t i = 0; i < n; ++i) found |= x[i] == 0.0f && std::signbit(x[i]);
  return found != 0;
}

}  // namespace repdl::cpu::attention
