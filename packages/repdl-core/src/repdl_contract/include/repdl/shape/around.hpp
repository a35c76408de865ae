// A row-major tensor as (outer, n, inner): a dimension, what is outside of it and what is inside.
#pragma once

#include "repdl/backend.hpp"

namespace repdl {

// The number of elements of dimensions begin .. end.
inline std::int64_t extent(const Tensor& tensor, std::int64_t begin, std::int64_t end) {
  std::int64_t result = 1;
  for (std::int64_t d = begin; d < end; ++d) result *= tensor.size[d];
  return result;
}

struct Around {
  std::int64_t outer, n, inner;

  std::int64_t count() const { return outer * n * inner; }
};

inline Around around(const Tensor& tensor, std::int64_t dim) {
  return {extent(tensor, 0, dim), tensor.size[dim], extent(tensor, dim + 1, tensor.dims)};
}

// Rows along the last dimension: (outer, n, 1). A number is a row of one.
inline Around rows_of(const Tensor& tensor) {
  return tensor.dims == 0 ? Around{1, 1, 1} : around(tensor, tensor.dims - 1);
}

}  // namespace repdl
