// Whether elements lie one after the other in the order of their indices.
#pragma once

#include "repdl/backend.hpp"

namespace repdl::cpu {

inline bool is_row_major(const Tensor& tensor) {
  std::int64_t expected = 1;
  for (int d = tensor.dims; d-- > 0; expected *= tensor.size[d])
    if (tensor.size[d] != 1 && tensor.stride[d] != expected) return false;
  return true;
}

}  // namespace repdl::cpu
