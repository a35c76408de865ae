// Element-wise passes over lists of tensors: all elements of a list as one index range.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/threads.hpp"

namespace repdl::cpu {

// Calls body(tensor, begin, end) over parts of all tensors, of counts[tensor] elements each;
// threads share the elements of the whole list, so many small tensors cost one wake-up.
template <class Body>
void for_elements(const std::vector<std::int64_t>& counts, std::int64_t grain, int threads, const Body& body) {
  std::vector<std::int64_t> ends;
  std::int64_t total = 0;
  for (const std::int64_t count : counts) ends.push_back(total += count);
  parallel_for(total, grain, threads, [&](std::int64_t begin, std::int64_t end) {
    std::size_t tensor = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    while (begin < end) {
      const std::int64_t stop = std::min(end, ends[tensor]), start = ends[tensor] - counts[tensor];
      if (begin < stop) body(tensor, begin - start, stop - start);
      begin = stop;
      ++tensor;
    }
  });
}

}  // namespace repdl::cpu
