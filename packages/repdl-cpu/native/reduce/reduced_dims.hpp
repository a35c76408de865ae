// The dimensions of a reduction, and its elements piece by piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

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

}  // namespace repdl::cpu
