// What the losses over class indices are given: logits (N, C, inner), targets (N, inner).
#pragma once

#include "repdl/shape/around.hpp"

namespace repdl {

enum class Reduction { none, mean, sum };

inline Reduction reduction_of(std::string_view name) {
  return name == "none" ? Reduction::none : name == "mean" ? Reduction::mean : Reduction::sum;
}

// The sizes of targets (N, ...) of `classes`: outer is N, n the classes, inner the positions beside them.
inline Around class_sizes(const Tensor& target, std::int64_t classes) {
  return {target.size[0], classes, extent(target, 1, target.dims)};
}

// Those of logits that have the classes last: a row for each target.
inline Around class_rows(const Tensor& target, const Tensor& rows) {
  return {target.count(), rows.size[rows.dims - 1], 1};
}

}  // namespace repdl
