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
#include <vector>

#include "base/tuned.hpp"
#include "repdl/contract/order.hpp"
#include "base/routes.hpp"
#include "base/scratch.hpp"
#include "simd/simd.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {

constexpr std::int64_t max_lanes = 64;               // that a contract can have, and that v1 has
constexpr std::int64_t sum_piece = tuned(1024, 64);  // elements of a staging buffer; a multiple of 64

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

// Two streams: 15% faster with 4 KiB pages, equal with huge pages (Zen 4); one where the lanes of
// two would take more than half of the registers.
constexpr int sum_streams = Vec::registers * Vec::width >= 4 * max_lanes ? 2 : 1;

// out[s * out_distance] = the block of n elements at x + s * distance, for s < sum_streams.
template <class T>
void sum_blocks(const T* x, std::int64_t distance, std::int64_t n, const Contract& contract, T* out,
                std::int64_t out_distance);

// to[c] = to[c] + rows[0][c] + rows[1][c] + ..., c < width; from +0 instead of to[c] if `from_zero`.
template <class T>
void add_rows(T* to, const T* const* rows, std::int64_t count, std::int64_t width, bool from_zero);

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
  for (std::int64_t i = 0; i < n; i += block) tree.push(sum_block_filled<T>(i, std::min(block, n - i), contract, fill));
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
  for (std::int64_t i = 0; i < n; i += block) tree.push(sum_block(x + i, std::min(block, n - i), contract));
  return tree.result();
}

// Few outputs: threads take whole blocks of each, and the tree joins them afterwards. sums(o, begin, end, partial)
// puts the blocks begin .. end of output o to partial[0 .. end - begin). `grain` elements are worth a thread.
template <class T, class Sums>
void join_blocks(std::int64_t outputs, std::int64_t n, const Contract& contract, std::int64_t grain, int threads,
                 T* out, const Sums& sums) {
  const std::int64_t block = sum_block_of(contract, n), blocks = (n + block - 1) / block;
  std::vector<T> partial(static_cast<std::size_t>(blocks));
  for (std::int64_t o = 0; o < outputs; ++o) {
    parallel_for(blocks, std::max<std::int64_t>(1, grain / block), threads,
                 [&](std::int64_t begin, std::int64_t end) { sums(o, begin, end, &partial[begin]); });
    // In the environment of parallel_for too.
    parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) { out[o] = canonical(tree_of(partial.data(), blocks)); });
  }
}

constexpr std::int64_t max_sum_columns = tuned(4096, 64);  // columns of a call; lanes of v1 are then 1 MiB of float
constexpr std::int64_t sum_rows_at_once = 4;               // of a lane

// out[c] = sum over i < n of row(i)[c], for c < columns, row(i) a pointer to contiguous
// columns, read before row is called sum_rows_at_once times more. `flat` says that
// row(i) = row(0) + i * columns: then lanes and elements are one long vector, and a few
// columns cost no more than many. Long rows come from memory fastest: 4096 columns of 16 KiB
// 2.5 times as fast as 64 at a time.
template <class T, class Row>
void sum_columns(std::int64_t n, std::int64_t columns, bool flat, Row&& row, T* out, const Contract& contract) {
  const std::int64_t block = sum_block_of(contract, n), lanes = contract.sum_lanes;
  const std::int64_t used = std::min(lanes, n), blocks = (n + block - 1) / block;
  const std::int64_t values = (used + tree_levels(blocks)) * columns;
  const Scratch<T> scratch(values);
  T* lane = scratch.data();
  T* level = lane + used * columns;  // the tree's left siblings
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t begin = b * block, end = std::min(n, begin + block);
    std::int64_t filled = std::min(lanes, end - begin);  // the other lanes are +0: adding them changes nothing
    if (blocks > 1) REPDL_ROUTE("sum of columns: several blocks", sizeof(T));
    if (flat) {
      REPDL_ROUTE("sum of columns: contiguous", sizeof(T));
      std::fill(lane, lane + filled * columns, T(0));
      for (std::int64_t i = begin; i < end; i += filled) {
        const T* x = row(i);
        const std::int64_t count = std::min(filled, end - i) * columns;
        for (std::int64_t j = 0; j < count; ++j) lane[j] += x[j];
      }
    } else {
      REPDL_ROUTE("sum of columns: strided", sizeof(T));
      for (std::int64_t first = begin; first < end; first += sum_rows_at_once * lanes) {
        for (std::int64_t l = 0; l < std::min(lanes, end - first); ++l) {
          const T* rows[sum_rows_at_once];
          std::int64_t count = 0;
          for (std::int64_t i = first + l; count < sum_rows_at_once && i < end; i += lanes) rows[count++] = row(i);
          add_rows(lane + l * columns, rows, count, columns, first == begin);
        }
      }
    }
    fold_lanes(lanes, [&](std::int64_t half) {
      const std::int64_t upper = std::max<std::int64_t>(0, filled - half) * columns;
      for (std::int64_t j = 0; j < upper; ++j) lane[j] += lane[j + half * columns];
      filled = std::min(filled, half);
    });
    const bool last = b + 1 == blocks;
    const int waits = tree_join(b, last, [&](int l) {
      for (std::int64_t c = 0; c < columns; ++c) lane[c] = level[l * columns + c] + lane[c];
    });
    T* to = last ? out : level + waits * columns;
    for (std::int64_t c = 0; c < columns; ++c) to[c] = lane[c];
  }
  if (blocks == 0) std::fill(out, out + columns, T(0));
}

}  // namespace repdl::cpu
