// The dimensions of a reduction, its elements piece by piece, and its columns tile by tile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/routes.hpp"
#include "base/threads.hpp"
#include "repdl/shape/dimensions.hpp"

namespace repdl::cpu {

// Dimensions outermost first, without those of size 1, neighbours joined where the strides allow.
struct ReducedDims {
  std::vector<std::int64_t> size, stride;
  std::int64_t count = 1;

  explicit ReducedDims(const Dimensions& of) {
    const std::vector<std::int64_t>&sizes = of.size, &strides = of.stride;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      count *= sizes[d];
      if (sizes[d] == 1) continue;
      if (!size.empty() && stride.back() == strides[d] * sizes[d]) {
        size.back() *= sizes[d];
        stride.back() = strides[d];
      } else {
        size.push_back(sizes[d]);
        stride.push_back(strides[d]);
      }
    }
  }

  // Contiguous elements.
  bool is_run() const { return size.size() <= 1 && inner_stride() == 1; }
  std::int64_t inner_size() const { return size.empty() ? 1 : size.back(); }
  std::int64_t inner_stride() const { return stride.empty() ? 1 : stride.back(); }

  std::int64_t offset(std::int64_t index) const {
    std::int64_t result = 0;
    for (std::size_t d = size.size(); d-- > 1;) {
      result += index % size[d] * stride[d];
      index /= size[d];
    }
    return size.empty() ? 0 : result + index * stride[0];
  }

  // dst[0 .. n) = elements start .. start + n of the row-major index.
  template <class T>
  void gather(const T* x, std::int64_t start, std::int64_t n, T* dst) const {
    map(x, start, n, dst, [](T value) { return value; });
  }

  // The same of f of each.
  template <class T, class F>
  void map(const T* x, std::int64_t start, std::int64_t n, T* dst, F f) const {
    const std::int64_t run = inner_size(), step = inner_stride();
    while (n > 0) {
      const std::int64_t count = std::min(n, run - start % run);
      const T* src = x + offset(start);
      if (step == 1)
        for (std::int64_t i = 0; i < count; ++i) dst[i] = f(src[i]);
      else
        for (std::int64_t i = 0; i < count; ++i) dst[i] = f(src[i * step]);
      start += count;
      dst += count;
      n -= count;
    }
  }
};

// Whether outer elements follow each other, and those of a row do not: columns.
inline bool are_columns(const ReducedDims& outer, const ReducedDims& reduced) {
  return outer.inner_size() >= 4 && outer.inner_stride() == 1 && reduced.count > 0 &&
         (reduced.count == 1 || reduced.inner_stride() != 1);
}

// task(from, to, count) for tiles of columns: where the first one of `count` begins, and its place among the outputs.
// `grain` elements are worth a thread.
template <class Task>
void for_tiles_of_columns(const ReducedDims& outer, const ReducedDims& reduced, std::int64_t tile, std::int64_t grain,
                          int threads, const Task& task) {
  const std::int64_t width = outer.inner_size(), tiles = (width + tile - 1) / tile;
  const std::int64_t tasks = std::max<std::int64_t>(1, grain / (reduced.count * std::min(width, tile) + 1));
  parallel_for(outer.count / width * tiles, tasks, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t row = t / tiles * width, first = t % tiles * tile;
      if (first > 0) REPDL_ROUTE("reduced dimensions: second tile of columns");
      task(outer.offset(row) + first, row + first, std::min(tile, width - first));
    }
  });
}

}  // namespace repdl::cpu
