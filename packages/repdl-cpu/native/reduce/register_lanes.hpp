// Sums of rows in memory (sum.md), many columns at once, where the lanes are many and hold few rows each:
//
//   if (fits_registers(n, contract)) sum_in_registers(n, columns, row, out, contract);
//     out[c] = the sum of row(i)[c] over i < n, not canonical yet
//
// No lane goes through memory: eight are summed and folded in registers, then eight of what is left. Rows that a
// lane has not are +0. A lane begins with its first term, which is -0 where +0 and it would be +0; +0 is added at
// the end, and the bits are the same.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/routes.hpp"
#include "base/tuned.hpp"
#include "reduce/sum.hpp"
#include "simd/simd.hpp"
#include "simd/simd_double.hpp"

namespace repdl::cpu {

// out[c] = the sum of the rows of eight lanes at c, folded: p[j * rows + m] is row m of lane j.
template <class T>
void fold_eight(const T* const* p, std::int64_t rows, std::int64_t columns, T* out) {
  using V = VecOf<T>;
  const auto of = [=](std::int64_t c, auto load) __attribute__((always_inline)) {
    V lane[8];
    for (int j = 0; j < 8; ++j) lane[j] = load(p[j * rows] + c);
    for (std::int64_t m = 1; m < rows; ++m)
      for (int j = 0; j < 8; ++j) lane[j] = lane[j] + load(p[j * rows + m] + c);
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  };
  std::int64_t c = 0;
  for (; c + V::width <= columns; c += V::width) of(c, [](const T* x) { return V::load(x); }).store(out + c);
  if (const int rest = static_cast<int>(columns - c); rest > 0)
    of(c, [rest](const T* x) { return V::load(x, rest); }).store(out + c, rest);
}

constexpr std::int64_t most_rows_of_a_lane = tuned(8, 2), fold_columns = tuned(1024, 32);

inline bool fits_registers(std::int64_t n, const Contract& contract) {
  return n > 4 && contract.sum_lanes >= 8 && n <= most_rows_of_a_lane * contract.sum_lanes &&
         n <= sum_block_of(contract, n);
}

template <class T, class Row>
void sum_in_registers(std::int64_t n, std::int64_t columns, const Row& row, T* out, const Contract& contract) {
  REPDL_ROUTE("sum of columns: in registers", sizeof(T));
  alignas(64) static const T zeros[fold_columns] = {};
  alignas(64) T folded[8][fold_columns];
  std::int64_t lanes = 8;
  while (lanes < std::min(n, contract.sum_lanes)) lanes *= 2;
  const std::int64_t groups = lanes / 8, rows = (n + lanes - 1) / lanes;
  const T* p[8 * most_rows_of_a_lane];
  for (std::int64_t first = 0; first < columns; first += fold_columns) {
    if (first > 0) REPDL_ROUTE("sum of columns: in registers, second piece", sizeof(T));
    const std::int64_t count = std::min(fold_columns, columns - first);
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t j = 0; j < 8; ++j)
        for (std::int64_t m = 0; m < rows; ++m) {
          const std::int64_t i = m * lanes + j * groups + g;
          p[j * rows + m] = i < n ? row(i) + first : zeros;
        }
      fold_eight(p, rows, count, folded[g]);
    }
    for (std::int64_t g = 0; g < 8; ++g) p[g] = g < groups ? folded[g] : zeros;
    fold_eight(p, 1, count, out + first);
    for (std::int64_t c = first; c < first + count; ++c) out[c] += T(0);
  }
}

}  // namespace repdl::cpu
