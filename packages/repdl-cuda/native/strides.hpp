// Strided tensors in kernels: N tensors of one shape, each with its strides, as a kernel argument.
#pragma once

#include <array>

#include "launch.hpp"
#include "repdl/host_device.hpp"

namespace repdl::cuda {

// index / size, both at least 0. Division of 64 bits takes a GPU three times as long.
REPDL_HD inline std::int64_t divide(std::int64_t index, std::int64_t size) {
  if (((index | size) >> 32) == 0) return static_cast<std::uint32_t>(index) / static_cast<std::uint32_t>(size);
  return index / size;
}

// Dimensions outermost first, those of size 1 dropped, neighbours joined where every tensor
// allows it, so that most shapes have one or two.
template <int N>
struct Shape {
  static constexpr int most = 16;

  std::int64_t count = 1;  // elements
  int dims = 0;
  std::int64_t size[most];
  std::int64_t stride[N][most];

  Shape(const char* op, const Sizes& sizes, const std::array<Sizes, N>& strides) {
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      count *= sizes[d];
      if (sizes[d] == 1) continue;
      bool joins = dims > 0;
      for (int k = 0; joins && k < N; ++k) joins = stride[k][dims - 1] == strides[k][d] * sizes[d];
      if (joins) {
        size[dims - 1] *= sizes[d];
      } else {
        if (dims == most)
          throw std::runtime_error(std::string(op) + ": more than 16 dimensions that cannot be joined; "
                                   "call .contiguous() on the tensors first");
        size[dims++] = sizes[d];
      }
      for (int k = 0; k < N; ++k) stride[k][dims - 1] = strides[k][d];
    }
  }

  // One run of elements: tensor k has element i at i * inner(k).
  REPDL_HD bool flat() const { return dims <= 1; }
  REPDL_HD std::int64_t inner(int k) const { return dims == 0 ? 0 : stride[k][dims - 1]; }
  REPDL_HD std::int64_t inner_size() const { return dims == 0 ? 1 : size[dims - 1]; }

  struct Offsets {
    std::int64_t at[N];

    REPDL_HD Offsets operator+(const Offsets& right) const {
      Offsets result = *this;
      for (int k = 0; k < N; ++k) result.at[k] += right.at[k];
      return result;
    }
  };
  // Where element `index` of one run lies in each tensor.
  REPDL_HD Offsets run(std::int64_t index) const {
    Offsets result{};
    for (int k = 0; k < N; ++k) result.at[k] = index * inner(k);
    return result;
  }
  // Where element `index` of the row-major order lies in each tensor.
  REPDL_HD Offsets offsets(std::int64_t index) const {
    Offsets result{};
    for (int d = dims - 1; d >= 0; --d) {
      std::int64_t i = index;
      if (d > 0) {
        const std::int64_t rest = divide(index, size[d]);
        i = index - rest * size[d];
        index = rest;
      }
      for (int k = 0; k < N; ++k) result.at[k] += i * stride[k][d];
    }
    return result;
  }
};

}  // namespace repdl::cuda
