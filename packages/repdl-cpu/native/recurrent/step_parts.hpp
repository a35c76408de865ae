// What the steps of a recurrent layer have in common, forward and backward: rows of elements, and how threads share a
// product of the rows of a step.
#pragma once

#include "recurrent/gate_product.hpp"

namespace repdl::cpu::recurrent {

// Rows of elements: value v of element e in row r at data[r * row + v * value + e].
struct ElementRows {
  float* data = nullptr;
  std::int64_t row = 0, value = 0;

  ElementRows from(std::int64_t r) const { return {data ? data + r * row : nullptr, row, value}; }
};

// Row-major, a copy where columns are strided.
inline ElementRows rows_of(const Tensor& tensor, std::int64_t size, const ExecContext& exec) {
  const std::int64_t rows = tensor.size[0], columns = tensor.size[1];
  if (columns <= 1 || tensor.stride[1] == 1) return {tensor.as<float>(), tensor.stride[0], size};
  float* copy = exec.workspace<float>(rows * columns);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      copy[r * columns + c] = tensor.as<float>()[r * tensor.stride[0] + c * tensor.stride[1]];
  return {copy, columns, size};
}

// Fused multiply-adds that a cell's element takes as long as.
constexpr std::int64_t cell_work = 128;

// Some rows of a step, and blocks of elements.
struct Tile {
  std::int64_t row, rows, block, blocks, element, elements;
};

// body(tile, memory) for all rows of a step and all elements of a product.
template <class Body>
void share(const GateProduct& product, std::int64_t rows, std::int64_t element_work, int threads, const Body& body) {
  constexpr std::int64_t grain = 3 << 17;  // fused multiply-adds worth a thread
  const std::int64_t blocks = product.blocks(), most = 8 * max_rows;
  const std::int64_t group = blocks >= threads ? std::max<std::int64_t>(rows, 1) : max_rows;
  const std::int64_t groups = (rows + group - 1) / group;
  if (groups > 1) REPDL_ROUTE("recurrent: threads share rows");
  // The weight of a few rows takes as long to be read as many rows take.
  const std::int64_t work = std::max<std::int64_t>(std::min(rows, group), 4) * product.floats(1, 1) * product.terms() +
                            std::min(rows, group) * product.unit() * element_work;
  parallel_for(groups * blocks, grain / (work + 1) + 1, threads, [&](std::int64_t begin, std::int64_t end) {
    const Scratch<float> scratch(product.floats(std::min(group, most), std::min(blocks, end - begin)));
    while (begin < end) {
      const std::int64_t block = begin % blocks, count = std::min(blocks - block, end - begin);
      const std::int64_t element = block * product.unit(), limit = std::min(rows, (begin / blocks + 1) * group);
      const std::int64_t elements = std::min(product.size() - element, count * product.unit());
      for (std::int64_t row = begin / blocks * group; row < limit; row += most)
        body(Tile{row, std::min(most, limit - row), block, count, element, elements}, scratch.data());
      begin += count;
    }
  });
}

}  // namespace repdl::cpu::recurrent
