// Products of matrices: sizes, and where the operands' elements lie.
#pragma once

#include "repdl/backend.hpp"

namespace repdl {

// (batch..., m, k) @ (batch..., k, n) -> (batch..., m, n); a transposed operand has other strides.
struct Products {
  std::int64_t m, n, k;
  std::int64_t a_row, a_k, b_k, b_column;
  std::vector<std::int64_t> batch, a_batch, b_batch;  // sizes, and strides: 0 to broadcast

  Products(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const Tensor& output)
      : m(output.size[output.dims - 2]), n(output.size[output.dims - 1]), k(a.size[a.dims - (transpose_a ? 2 : 1)]),
        a_row(a.stride[a.dims - (transpose_a ? 1 : 2)]), a_k(a.stride[a.dims - (transpose_a ? 2 : 1)]),
        b_k(b.stride[b.dims - (transpose_b ? 1 : 2)]), b_column(b.stride[b.dims - (transpose_b ? 2 : 1)]),
        batch(output.size, output.size + output.dims - 2), a_batch(strides(a)), b_batch(strides(b)) {}

  std::int64_t count() const {
    std::int64_t result = 1;
    for (const std::int64_t size : batch) result *= size;
    return result;
  }

  // The offset of each product's operand, the last dimension of the batch fastest.
  std::vector<std::int64_t> offsets(const std::vector<std::int64_t>& stride) const {
    std::vector<std::int64_t> result{0};
    for (std::size_t d = 0; d < batch.size(); ++d) {
      std::vector<std::int64_t> longer;
      longer.reserve(result.size() * static_cast<std::size_t>(batch[d]));
      for (const std::int64_t offset : result)
        for (std::int64_t i = 0; i < batch[d]; ++i) longer.push_back(offset + i * stride[d]);
      result = std::move(longer);
    }
    return result;
  }

 private:
  std::vector<std::int64_t> strides(const Tensor& tensor) const {
    const int lead = static_cast<int>(batch.size()) - (tensor.dims - 2);
    std::vector<std::int64_t> result(batch.size(), 0);
    for (int d = 0; d < tensor.dims - 2; ++d)
      if (tensor.size[d] != 1) result[static_cast<std::size_t>(lead + d)] = tensor.stride[d];
    return result;
  }
};

// A vector in host memory, copied where its elements are strided; null for None.
template <class T>
const T* contiguous_vector(const Tensor& vector, const ExecContext& exec) {
  if (!vector.given || vector.size[0] <= 1 || vector.stride[0] == 1) return vector.as<T>();
  T* copy = exec.workspace<T>(vector.size[0]);
  for (std::int64_t i = 0; i < vector.size[0]; ++i) copy[i] = vector.as<T>()[i * vector.stride[0]];
  return copy;
}

}  // namespace repdl
