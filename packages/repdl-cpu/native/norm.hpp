// What the norms over rows share (layer_norm.md, rms_norm.md, group_norm.md):
//
//   sweep(n, body)                one loop over elements, vectors first
//   sum_each(n, contract, f)      the contract's sum of f over a row, lanes in registers
//   column_sums(rows, width, ..)  sums over the rows, while each row is visited once
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "simd.hpp"
#include "sum.hpp"
#include "threads.hpp"

namespace repdl::cpu {

// A vector of one element, so that a body written against Vec also does the rest of a row.
struct One {
  static constexpr int width = 1;
  float v;

  static One set1(float x) { return {x}; }
  static One load(const float* p) { return {*p}; }
  void store(float* p) const { *p = v; }
};

inline One operator+(One a, One b) { return {a.v + b.v}; }
inline One operator-(One a, One b) { return {a.v - b.v}; }
inline One operator*(One a, One b) { return {a.v * b.v}; }
inline One fma(One a, One b, One c) { return {fma(a.v, b.v, c.v)}; }
inline One canonical(One a) { return {canonical(a.v)}; }

// body(i, V{}) for i < n, elements i .. i + V::width, V being Vec or One.
template <class Body>
void sweep(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + Vec::width <= n; i += Vec::width) body(i, Vec{});
  for (; i < n; ++i) body(i, One{});
}

// The sum of one block of 64 lanes; f(i, V{}) gives elements begin + i on.
template <class F>
float sum_64_lanes(std::int64_t begin, std::int64_t n, const F& f) {
  constexpr int vectors = static_cast<int>(max_lanes) / Vec::width;
  Vec lane[vectors];
  for (int v = 0; v < vectors; ++v) lane[v] = Vec::zero();
  std::int64_t i = 0;
  for (; i + max_lanes <= n; i += max_lanes)
    for (int v = 0; v < vectors; ++v) lane[v] = lane[v] + f(begin + i + v * Vec::width, Vec{});
  if (i < n) {
    alignas(64) float rest[max_lanes] = {};  // a lane that has no more elements gets +0: no change
    sweep(n - i, [&](std::int64_t j, auto type) { f(begin + i + j, type).store(rest + j); });
    for (int v = 0; v < vectors; ++v) lane[v] = lane[v] + Vec::load(rest + v * Vec::width);
  }
  for (int half = vectors / 2; half >= 1; half /= 2)
    for (int v = 0; v < half; ++v) lane[v] = lane[v] + lane[v + half];
  alignas(64) float last[Vec::width];
  lane[0].store(last);
  for (int half = Vec::width / 2; half >= 1; half /= 2)
    for (int j = 0; j < half; ++j) last[j] = last[j] + last[j + half];
  return last[0];
}

// f(0) + ... + f(n - 1), f(i, V{}) giving a V of elements from i on.
template <class F>
float sum_each(std::int64_t n, const Contract& contract, const F& f) {
  if (contract.sum_lanes != max_lanes)
    return sum_filled(n, contract, [&f](std::int64_t start, std::int64_t count, float* dst) {
      sweep(count, [&](std::int64_t i, auto type) { f(start + i, type).store(dst + i); });
    });
  const std::int64_t block = sum_block_of(contract, n);
  if (n <= block) return sum_64_lanes(0, n, f);
  Tree<float> tree;
  for (std::int64_t i = 0; i < n; i += block) tree.push(sum_64_lanes(i, std::min(block, n - i), f));
  return tree.result();
}

// The contract's sums over `rows` of `width` columns at once, row by row: visit(row, lane)
// adds the row's elements to lane[0 .. width), once for each row, in any order of rows.
//
// A row belongs to one lane of one block, and lanes fold by halves: lane j with j + lanes/2,
// the two with j + lanes/4, and so on. So the lanes j, j + step, j + 2 * step ... make up a
// subtree, and visiting lane after lane of it needs only a few accumulators, which stay in
// the L1 cache. Threads take whole subtrees of blocks.
class ColumnSums {
 public:
  ColumnSums(std::int64_t rows, std::int64_t width, const Contract& contract)
      : rows_(rows), width_(width), lanes_(contract.sum_lanes), block_(sum_block_of(contract, rows)),
        parts_(std::min<std::int64_t>(lanes_, 8)), blocks_((rows + block_ - 1) / block_),
        partial_(static_cast<std::size_t>(std::max<std::int64_t>(1, blocks_ * parts_) * width)) {}

  // The sums, valid until the object goes.
  template <class Visit>
  const float* run(int threads, const Visit& visit) {
    const std::int64_t part_rows = std::max<std::int64_t>(1, std::min(block_, rows_) / parts_);
    const std::int64_t grain = std::max<std::int64_t>(1, (1 << 13) / (part_rows * width_ + 1));
    parallel_for(blocks_ * parts_, grain, threads, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> right(static_cast<std::size_t>(width_) * 6);  // 64 lanes are 6 levels
      for (std::int64_t task = begin; task < end; ++task)
        subtree(task / parts_ * block_, task % parts_, parts_, partial(task), right.data(), visit);
    });
    parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) {
      for (std::int64_t b = 0; b < blocks_; ++b)
        for (std::int64_t half = parts_ / 2; half >= 1; half /= 2)
          for (std::int64_t j = 0; j < half; ++j) add(partial(b * parts_ + j), partial(b * parts_ + j + half));
      join(0, blocks_);
    });
    return partial_.data();
  }

 private:
  float* partial(std::int64_t task) { return partial_.data() + task * width_; }

  void add(float* left, const float* right) const {
    for (std::int64_t c = 0; c < width_; ++c) left[c] = left[c] + right[c];
  }

  // sum = the folded lanes first, first + step, first + 2 * step ... of the block at `start`.
  template <class Visit>
  void subtree(std::int64_t start, std::int64_t first, std::int64_t step, float* sum, float* right,
               const Visit& visit) const {
    const std::int64_t count = std::min(block_, rows_ - start);
    if (step == lanes_) {
      std::fill(sum, sum + width_, 0.0f);
      for (std::int64_t i = first; i < count; i += lanes_) visit(start + i, sum);
      return;
    }
    subtree(start, first, 2 * step, sum, right, visit);
    if (first + step >= count) return;  // lanes without elements are +0: no change
    subtree(start, first + step, 2 * step, right, right + width_, visit);
    add(sum, right);
  }

  // The tree over n blocks, into the first of them.
  void join(std::int64_t first, std::int64_t n) {
    if (n < 2) return;
    const std::int64_t half = std::int64_t{1} << (tree_levels(n) - 1);
    join(first, half);
    join(first + half, n - half);
    add(partial(first * parts_), partial((first + half) * parts_));
  }

  std::int64_t rows_, width_, lanes_, block_, parts_, blocks_;
  std::vector<float> partial_;  // (blocks, parts, width)
};

// Rows worth a thread.
inline std::int64_t norm_grain(std::int64_t n) { return std::max<std::int64_t>(1, (1 << 13) / (n + 1)); }

}  // namespace repdl::cpu
