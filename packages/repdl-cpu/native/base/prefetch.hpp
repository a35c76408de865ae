// Later rows are prefetched while this one is worked on: they are in other pages, where the
// hardware prefetcher does not go. Into L2: L1 has no room.
#pragma once

#include <algorithm>
#include <cstdint>

namespace repdl::cpu {

// The element `ahead` of p; none for 0.
inline void prefetch(const float* p, std::int64_t ahead) {
  if (ahead != 0) __builtin_prefetch(p + ahead, 0, 2);
}

// An element that this row stores.
inline void prefetch_for_store(const float* p) { __builtin_prefetch(p, 1, 2); }

// How many elements ahead to prefetch in rows of n, `left` rows before the last one; 0 where it would
// cost more than it gains: where L2 has all that is left, or too little for a row.
inline std::int64_t prefetch_distance(std::int64_t n, std::int64_t left) {
  if (left * n < 1 << 17 || n > 1 << 15) return 0;
  return std::max<std::int64_t>(n, 2048);
}

}  // namespace repdl::cpu
