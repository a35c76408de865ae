// Strided tensors in kernels: N tensors of one shape, each with its strides, as a kernel argument.
#pragma once

#include <array>

#include "base/launch.hpp"
#include "repdl/host_device.hpp"
#include "repdl/pointwise/pass.hpp"

namespace repdl::cuda {

// Division by a size, known at launch, of indices from 0 to 2^63 - 1: a multiplication and a
// shift (Granlund and Montgomery, PLDI 1994), where a GPU's own division takes three times as
// long and, having branches, keeps loads apart.
class FastDivmod64 {
 public:
  FastDivmod64() = default;
  explicit FastDivmod64(std::int64_t size) {
    while (std::int64_t{1} << shift_ < size) ++shift_;
    const auto excess = static_cast<unsigned __int128>((std::uint64_t{1} << shift_) - static_cast<std::uint64_t>(size));
    factor_ = size == 0 ? 0 : static_cast<std::uint64_t>((excess << 64) / static_cast<std::uint64_t>(size)) + 1;
  }
  __device__ std::int64_t quotient(std::int64_t index) const {
    const auto i = static_cast<std::uint64_t>(index);
    return static_cast<std::int64_t>((__umul64hi(factor_, i) + i) >> shift_);
  }

 private:
  std::uint64_t factor_ = 0;
  int shift_ = 0;
};

// Dimensions outermost first, those of size 1 dropped, neighbours joined where every tensor
// allows it, so that most shapes have one or two.
template <int N>
struct Shape {
  static constexpr int most = 16;

  std::int64_t count = 1;  // elements
  int dims = 0;
  std::int64_t size[most];
  std::int64_t stride[N][most];
  FastDivmod64 divisor[most];  // by size

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
          throw std::runtime_error(std::string(op) +
                                   ": more than 16 dimensions that cannot be joined; "
                                   "call .contiguous() on the tensors first");
        size[dims++] = sizes[d];
      }
      for (int k = 0; k < N; ++k) stride[k][dims - 1] = strides[k][d];
    }
    for (int d = 0; d < dims; ++d) divisor[d] = FastDivmod64(size[d]);
  }

  explicit Shape(const pointwise::Pass<N>& pass) : count(pass.count), dims(pass.dims) {
    for (int d = 0; d < dims; ++d) {
      size[d] = pass.size[d];
      for (int k = 0; k < N; ++k) stride[k][d] = pass.stride[k][d];
      divisor[d] = FastDivmod64(size[d]);
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
    REPDL_HD Offsets operator*(std::int64_t count) const {
      Offsets result = *this;
      for (int k = 0; k < N; ++k) result.at[k] *= count;
      return result;
    }
  };
  // Where element `index` of one run lies in each tensor.
  REPDL_HD Offsets run(std::int64_t index) const {
    Offsets result{};
    for (int k = 0; k < N; ++k) result.at[k] = index * inner(k);
    return result;
  }
  // How many elements from `index` of the row-major order on lie in its run. Of a shape that is not flat.
  __device__ std::int64_t left_in_run(std::int64_t index) const {
    return (divisor[dims - 1].quotient(index) + 1) * size[dims - 1] - index;
  }
  // Where element `index` of the row-major order lies in each tensor.
  __device__ Offsets offsets(std::int64_t index) const {
    Offsets result{};
#pragma unroll 1
    for (int d = dims - 1; d >= 0; --d) {
      std::int64_t i = index;
      if (d > 0) {
        const std::int64_t rest = divisor[d].quotient(index);
        i = index - rest * size[d];
        index = rest;
      }
      for (int k = 0; k < N; ++k) result.at[k] += i * stride[k][d];
    }
    return result;
  }
};

}  // namespace repdl::cuda
