// Row-major tensors of the norms: rows of channels.
#pragma once

#include "repdl/shape/around.hpp"

namespace repdl {

// (batch, groups, channels of a group, inner), a row for each of (batch, groups).
struct GroupedChannels {
  std::int64_t batch, groups, channels, inner;

  std::int64_t rows() const { return batch * groups; }
  std::int64_t n() const { return channels * inner; }  // of a row
};

// (N, C, ...) with the channels in groups.
inline GroupedChannels grouped(const Tensor& input, std::int64_t groups) {
  return {input.size[0], groups, input.size[1] / groups, extent(input, 2, input.dims)};
}

// (rows, n), each element of a row a channel: n are the elements of the last dimensions, `normalized`.
inline GroupedChannels normalized_rows(const Tensor& input, Ints normalized) {
  const auto lead = input.dims - static_cast<std::int64_t>(normalized.length);
  return {extent(input, 0, lead), 1, extent(input, lead, input.dims), 1};
}

}  // namespace repdl
