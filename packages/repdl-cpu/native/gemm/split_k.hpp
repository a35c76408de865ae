// Few outputs with many terms: threads share the terms, cut at subtree boundaries of the tree.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/threads.hpp"
#include "repdl/contract/order.hpp"
#include "simd/simd.hpp"

namespace repdl::cpu {

// Splits of `terms` terms: 2^n chunks each, but the last, so that the results of splits join as those
// of chunks do.
struct SplitK {
  std::int64_t terms, length, count = 1;

  // Enough splits for `threads` to share them evenly; one where their results would take much memory.
  SplitK(std::int64_t terms, std::int64_t chunk, std::int64_t outputs, std::int64_t threads)
      : terms(terms), length(terms) {
    if (threads <= 1 || outputs > 1 << 15 || chunk == 0 || chunk > terms / 2) return;
    constexpr std::int64_t most = std::int64_t{1} << 25;  // floats of results; 64 threads stay below
    length = chunk;
    while (length * 8 * threads <= terms || terms / length * outputs > most) length *= 2;
    count = (terms + length - 1) / length;
  }

  std::int64_t first(std::int64_t split) const { return split * length; }
  std::int64_t size(std::int64_t split) const { return std::min(length, terms - first(split)); }
};

// out[i] = tree over the splits s of result[s * stride + i], stride a multiple of Vec::width.
inline void join_splits(const float* result, std::int64_t stride, std::int64_t splits, std::int64_t outputs, float* out,
                        int threads) {
  constexpr std::int64_t grain = 256;  // vectors worth a thread
  parallel_for(stride / Vec::width, grain, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * Vec::width; i < std::min(outputs, end * Vec::width); i += Vec::width) {
      Tree<Vec, 40> tree;
      for (std::int64_t s = 0; s + 1 < splits; ++s) tree.push(Vec::load(result + s * stride + i));
      const Vec sum = tree.finish(Vec::load(result + (splits - 1) * stride + i));
      canonical(sum).store(out + i, static_cast<int>(std::min<std::int64_t>(Vec::width, outputs - i)));
    }
  });
}

}  // namespace repdl::cpu
