// Some dimensions of a tensor: those that a reduction keeps, or those that it goes through.
#pragma once

#include <algorithm>

#include "repdl/backend.hpp"

namespace repdl {

struct Dimensions {
  std::vector<std::int64_t> size, stride;

  // Those that `dim` names, or with `named` false the others, in the order of the tensor.
  Dimensions(const Tensor& tensor, Ints dim, bool named) {
    for (int d = 0; d < tensor.dims; ++d)
      if ((std::find(dim.begin(), dim.end(), d) != dim.end()) == named) {
        size.push_back(tensor.size[d]);
        stride.push_back(tensor.stride[d]);
      }
  }
};

}  // namespace repdl
