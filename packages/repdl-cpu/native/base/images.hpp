// Images of 1 to 3 sides, (N, C, sides...), as their memory has them:
//
//   row-major      (outer = N * C, sides..., inner = 1)
//   channels last  (outer = N, sides..., inner = C)
#pragma once

#include <cstdint>
#include <cstring>

#include "base/row_major.hpp"
#include "base/scratch.hpp"
#include "repdl/backend.hpp"

namespace repdl::cpu {

constexpr int most_sides = 3;

inline std::int64_t bytes_of(DType dtype) {
  return dtype == DType::float64 ? 8 : dtype == DType::float32 ? 4 : 2;  // no other dtype gets here
}

struct Images {
  std::int64_t outer = 1, inner = 1;
  std::int64_t side[most_sides] = {1, 1, 1};  // those that there are at the end

  // The form in which an output, which has no gaps, lies in memory.
  explicit Images(const Tensor& output) : Images(output, !is_row_major(output)) {}

  Images(const Tensor& tensor, bool channels_last) : outer(tensor.size[0]) {
    (channels_last ? inner : outer) *= tensor.size[1];
    for (int d = 2; d < tensor.dims; ++d) side[most_sides - tensor.dims + d] = tensor.size[d];
  }

  std::int64_t positions() const { return side[0] * side[1] * side[2]; }
  std::int64_t count() const { return outer * positions() * inner; }
};

// The memory of an operand in the form of an output: its own, or a copy.
class InForm {
 public:
  InForm(const Tensor& tensor, bool channels_last)
      : copy_(is_in_form(tensor, channels_last) ? 0 : tensor.count() * bytes_of(tensor.dtype)),
        data_(copy_.data() ? copy_.data() : tensor.as<char>()) {
    if (copy_.data()) copy(tensor, channels_last);
  }

  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  static bool is_in_form(const Tensor& tensor, bool channels_last) {
    if (!channels_last) return is_row_major(tensor);
    std::int64_t expected = 1;
    for (int i = 0; i < tensor.dims; ++i) {
      const int d = dimension(tensor, i);
      if (tensor.size[d] != 1 && tensor.stride[d] != expected) return false;
      expected *= tensor.size[d];
    }
    return true;
  }

  // The dimensions of channels last, the innermost first.
  static int dimension(const Tensor& tensor, int i) { return i == 0 ? 1 : i == tensor.dims - 1 ? 0 : tensor.dims - i; }

  // Rows of the innermost dimension, one after the other.
  void copy(const Tensor& tensor, bool channels_last) {
    const std::int64_t bytes = bytes_of(tensor.dtype), count = tensor.count();
    const auto nth = [&](int i) { return channels_last ? dimension(tensor, i) : tensor.dims - 1 - i; };
    const std::int64_t length = tensor.size[nth(0)], step = tensor.stride[nth(0)] * bytes;
    char* to = copy_.data();
    for (std::int64_t first = 0; first < count; first += length) {
      std::int64_t rest = first / length, from = 0;
      for (int i = 1; i < tensor.dims; ++i) {
        from += rest % tensor.size[nth(i)] * tensor.stride[nth(i)];
        rest /= tensor.size[nth(i)];
      }
      const char* row = tensor.as<char>() + from * bytes;
      for (std::int64_t i = 0; i < length; ++i, to += bytes)
        bytes == 4 ? std::memcpy(to, row + i * step, 4)
                   : std::memcpy(to, row + i * step, static_cast<std::size_t>(bytes));
    }
  }

  Scratch<char> copy_;
  const char* data_;
};

}  // namespace repdl::cpu
