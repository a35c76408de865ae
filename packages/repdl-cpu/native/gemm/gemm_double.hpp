// Products of doubles, of operands and outputs that are addressed by tables of offsets, so that no layout
// needs code of its own.
//
//   for i < M, j < N:  (M, K), (N, K) -> (M, N)
//     C[i, j] = dot over k of A[i, k] and B[j, k], plus bias
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace repdl::cpu {

using Sizes = std::vector<std::int64_t>;

// i * step for i < count.
inline Sizes steps(std::int64_t count, std::int64_t step) {
  Sizes result(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) result[static_cast<std::size_t>(i)] = i * step;
  return result;
}

// The sums of one offset of each list, those of the last list fastest.
inline Sizes sums(std::initializer_list<Sizes> lists) {
  Sizes result{0};
  for (const Sizes& list : lists) {
    Sizes longer;
    longer.reserve(result.size() * list.size());
    for (const std::int64_t offset : result)
      for (const std::int64_t more : list) longer.push_back(offset + more);
    result = std::move(longer);
  }
  return result;
}

// Element (i, k) of the operand of one product of a batch: data[batch[...] + outer[i] + inner[k]].
struct TableOperand {
  const double* data;
  Sizes batch, outer, inner;
};

struct TableOutput {
  double* data;
  Sizes batch, rows, columns;
  const double* row_bias = nullptr;  // those of one product after those of the other
  const double* column_bias = nullptr;
};

// C of each product of a batch; `chunk` terms are one chain (matmul.md), all where it is 0.
void double_products(const TableOperand& a, const TableOperand& b, const TableOutput& c, std::int64_t chunk,
                     int threads);

}  // namespace repdl::cpu
