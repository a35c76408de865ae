// The sums of the contract (sum.md), for the sum itself and for every kernel that has one
// inside (softmax, norms, losses):
//
//   sum_row(x, n, stride, contract)         a strided row in memory
//   sum_of(n, contract, f)                  f(0) + f(1) + ... computed on the fly
//   sum_filled(n, contract, fill)           elements written by fill(start, count, dst)
//   sum_columns(n, columns, row, out, ...)  many columns at once, element (i, c) at row(i)[c]
//
// Order, for each output on its own: blocks of sum_block; in a block element i goes to
// lane i mod sum_lanes, a chain of adds from +0; lanes fold by halves; blocks join by the
// tree. No lane is ever -0 (it starts from +0), so adding +0 to a lane changes nothing:
// absent lanes and the +0 of a masked load are free. No result is made canonical here.
//
// All of it belongs inside parallel_for, which sets the floating-point environment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "repdl/contract/order.hpp"

namespace repdl::cpu {

constexpr std::int64_t max_lanes = 64;  // that a contract can have, and that v1 has
constexpr std::int64_t sum_piece = 1024;  // elements of a staging buffer; a multiple of 64

// The order of a sum, from the fields that reach a binding.
inline Contract sum_order(std::int64_t lanes, std::int64_t block) {
  Contract contract;
  contract.sum_lanes = lanes;
  contract.sum_block = block;
  return contract;
}

inline std::int64_t sum_block_of(const Contract& contract, std::int64_t n) {
  return contract.sum_block ? contract.sum_block : std::max<std::int64_t>(n, 1);
}

// The lanes of one block: add elements in ascending index, then take the folded result.
template <class T>
class BlockSumOf {
 public:
  explicit BlockSumOf(const Contract& contract) : lanes_(contract.sum_lanes) {}
  // Elements that start at a multiple of 64 within the block.
  void add(const T* x, std::int64_t n);
  T result() const;

 private:
  std::int64_t lanes_;
  alignas(64) T lane_[max_lanes] = {};
};

using BlockSum = BlockSumOf<float>;

// One block in memory.
template <class T>
T sum_block(const T* x, std::int64_t n, const Contract& contract) {
  BlockSumOf<T> block(contract);
  block.add(x, n);
  return block.result();
}

// One block of elements that fill(start, count, dst) writes, start counting from `begin`.
template <class T = float, class Fill>
T sum_block_filled(std::int64_t begin, std::int64_t n, const Contract& contract, Fill&& fill) {
  alignas(64) T staged[sum_piece];
  BlockSumOf<T> block(contract);
  for (std::int64_t i = 0; i < n; i += sum_piece) {
    const std::int64_t count = std::min(sum_piece, n - i);
    fill(begin + i, count, staged);
    block.add(staged, count);
  }
  return block.result();
}

// Elements written piece by piece: fill(start, count, dst) puts elements start .. start +
// count of the reduced index to dst, count <= 1024, start ascending.
template <class T = float, class Fill>
T sum_filled(std::int64_t n, const Contract& contract, Fill&& fill) {
  const std::int64_t block = sum_block_of(contract, n);
  if (n <= block) return sum_block_filled<T>(0, n, contract, fill);
  Tree<T> tree;
  for (std::int64_t i = 0; i < n; i += block)
    tree.push(sum_block_filled<T>(i, std::min(block, n - i), contract, fill));
  return tree.result();
}

// f(0) + f(1) + ... + f(n - 1), in the type that f returns; a simple f becomes a vector loop.
template <class F>
auto sum_of(std::int64_t n, const Contract& contract, F&& f) {
  using T = std::decay_t<decltype(f(n))>;
  return sum_filled<T>(n, contract, [&f](std::int64_t start, std::int64_t count, T* dst) {
    for (std::int64_t i = 0; i < count; ++i) dst[i] = f(start + i);
  });
}

// x[0] + x[stride] + ... + x[(n - 1) * stride].
template <class T>
T sum_row(const T* x, std::int64_t n, std::int64_t stride, const Contract& contract) {
  if (stride != 1) return sum_of(n, contract, [x, stride](std::int64_t i) { return x[i * stride]; });
  const std::int64_t block = sum_block_of(contract, n);
  if (n <= block) return sum_block(x, n, contract);
  Tree<T> tree;
  for (std::int64_t i = 0; i < n; i += block)
    tree.push(sum_block(x + i, std::min(block, n - i), contract));
  return tree.result();
}

constexpr std::int64_t sum_columns_tile = 64;  // columns; lanes of a tile are 16 KiB of float

// out[c] = sum over i < n of row(i)[c], for c < columns, row(i) a pointer to contiguous
// columns. `flat` says that row(i) = row(0) + i * columns: then lanes and elements are one
// long vector, and a few columns cost no more than many.
template <class T, class Row>
void sum_columns(std::int64_t n, std::int64_t columns, bool flat, Row&& row, T* out,
                 const Contract& contract) {
  const std::int64_t block = sum_block_of(contract, n), lanes = contract.sum_lanes;
  alignas(64) T lane[max_lanes * sum_columns_tile];
  alignas(64) T level[40 * sum_columns_tile];  // the tree's left siblings
  for (std::int64_t first = 0; first < columns; first += sum_columns_tile) {
    const std::int64_t width = std::min(sum_columns_tile, columns - first);
    const bool whole_rows = flat && width == columns;
    std::int64_t parts = 0;
    for (std::int64_t begin = 0; begin < n; begin += block, ++parts) {
      const std::int64_t end = std::min(n, begin + block);
      const std::int64_t used = std::min(lanes, end - begin);  // the others stay +0
      std::fill(lane, lane + lanes * width, T(0));
      for (std::int64_t i = begin; i < end; i += used) {
        const std::int64_t count = std::min(used, end - i);
        if (whole_rows) {
          const T* x = row(i);
          for (std::int64_t j = 0; j < count * width; ++j) lane[j] += x[j];
        } else {
          for (std::int64_t l = 0; l < count; ++l) {
            const T* x = row(i + l) + first;
            T* to = lane + l * width;
            for (std::int64_t c = 0; c < width; ++c) to[c] += x[c];
          }
        }
      }
      for (std::int64_t half = lanes / 2; half >= 1; half /= 2)
        for (std::int64_t j = 0; j < half * width; ++j) lane[j] += lane[j + half * width];
      std::int64_t at = 0;
      for (; (parts >> at) & 1; ++at)
        for (std::int64_t c = 0; c < width; ++c) lane[c] = level[at * sum_columns_tile + c] + lane[c];
      for (std::int64_t c = 0; c < width; ++c) level[at * sum_columns_tile + c] = lane[c];
    }
    bool joined = false;
    if (parts == 0) std::fill(out + first, out + first + width, T(0));
    for (std::int64_t at = 0; (parts >> at) != 0; ++at) {
      if (!((parts >> at) & 1)) continue;
      for (std::int64_t c = 0; c < width; ++c)
        out[first + c] = joined ? level[at * sum_columns_tile + c] + out[first + c] : level[at * sum_columns_tile + c];
      joined = true;
    }
  }
}

}  // namespace repdl::cpu
