// A small thread pool. Threads split outputs, and a reduction only at joints of the contract's tree
// (split_k.hpp): bits do not depend on it.
#pragma once

#include <cstdint>
#include <functional>

namespace repdl::cpu {

// Calls body(begin, end) over a partition of [0, n) on up to `threads` threads, each part
// at least `grain` long. Every part runs in an IeeeScope. The first exception is rethrown.
// Threads that cannot be started are done without.
void parallel_for(std::int64_t n, std::int64_t grain, int threads,
                  const std::function<void(std::int64_t, std::int64_t)>& body);

// Memory of the calling thread for `floats` floats, 64-byte aligned, kept between calls
// while small. Slots are independent of each other; contents are undefined.
float* scratch(int slot, std::int64_t floats);

}  // namespace repdl::cpu
