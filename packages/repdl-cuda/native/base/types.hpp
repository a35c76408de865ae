// Sizes and streams.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace repdl::cuda {

using Sizes = std::vector<std::int64_t>;

// Where a kernel runs: the index of a device, and the handle of one of its streams.
using Stream = std::pair<int, std::uintptr_t>;

}  // namespace repdl::cuda
