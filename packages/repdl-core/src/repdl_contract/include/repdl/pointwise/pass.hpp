// The shape of a pointwise op: its operands broadcast to the output, walked in the output's memory order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "repdl/backend.hpp"
#include "repdl/host_device.hpp"

namespace repdl::pointwise {

// N operands, any strides, and an output without gaps. Dimensions of size 1 are dropped and neighbours
// joined where every operand allows it, so that most passes have one dimension; the outermost comes first.
template <int N>
struct Pass {
  static constexpr int most = 16;  // dimensions that can't be joined

  std::int64_t count = 1;  // elements
  int dims = 0;
  std::int64_t size[most];
  std::int64_t stride[N == 0 ? 1 : N][most];

  Pass(const char* op, const Tensor& output, const std::array<const Tensor*, N>& operands) {
    std::array<int, 64> order;
    if (output.dims > static_cast<int>(order.size()))
      throw std::runtime_error(std::string(op) + ": more than 64 dimensions; reshape the tensors first");
    for (int d = 0; d < output.dims; ++d) order[d] = d;
    const auto outer = [&output](int a, int b) { return output.stride[a] > output.stride[b]; };
    if (!std::is_sorted(order.begin(), order.begin() + output.dims, outer))
      std::stable_sort(order.begin(), order.begin() + output.dims, outer);
    for (int i = 0; i < output.dims; ++i) {
      const int d = order[i];
      count *= output.size[d];
      if (output.size[d] != 1) add(op, output, d, operands);
    }
    if (count == 0) dims = 0;
  }

  // One run of elements: operand k has element i at i * inner(k).
  REPDL_HD bool flat() const { return dims <= 1; }
  REPDL_HD std::int64_t inner(int k) const { return dims == 0 ? 0 : stride[k][dims - 1]; }
  REPDL_HD std::int64_t inner_size() const { return dims == 0 ? 1 : size[dims - 1]; }

 private:
  void add(const char* op, const Tensor& output, int d, const std::array<const Tensor*, N>& operands) {
    std::array<std::int64_t, N> here;
    bool joins = dims > 0;
    for (int k = 0; k < N; ++k) {
      const int own = d - (output.dims - operands[k]->dims);  // sizes are aligned at the right
      here[k] = own < 0 || operands[k]->size[own] == 1 ? 0 : operands[k]->stride[own];
      joins = joins && stride[k][dims - 1] == here[k] * output.size[d];
    }
    if (!joins) {
      if (dims == most)
        throw std::runtime_error(std::string(op) +
                                 ": more than 16 dimensions that cannot be joined; call "
                                 ".contiguous() on the tensors first");
      size[dims++] = 1;
    }
    size[dims - 1] *= output.size[d];
    for (int k = 0; k < N; ++k) stride[k][dims - 1] = here[k];
  }
};

}  // namespace repdl::pointwise
