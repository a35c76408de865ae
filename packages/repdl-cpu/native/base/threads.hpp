// A small thread pool. Threads split outputs, and a reduction only at subtree boundaries of the
// contract's tree (split_k.hpp): bits do not depend on it.
#pragma once

#include <cstdint>
#include <functional>

namespace repdl::cpu {

// Calls body(begin, end) over a partition of [0, n) on up to `threads` threads, each share
// at least `grain` long. Every share runs in an IeeeScope. The first exception is rethrown.
// Threads that cannot be started are done without.
void parallel_for(std::int64_t n, std::int64_t grain, int threads,
                  const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace repdl::cpu
