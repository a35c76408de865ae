// What conv2d and its gradients share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "repdl/shape/convolution.hpp"

namespace repdl::cpu {

// Memory of one call, not initialised.
using Storage = std::unique_ptr<float[]>;

inline Storage allocate(std::int64_t floats) {
  return Storage(new float[static_cast<std::size_t>(std::max<std::int64_t>(floats, 1))]);
}

}  // namespace repdl::cpu
