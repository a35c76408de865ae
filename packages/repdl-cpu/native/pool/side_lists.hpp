// For each position of a side a list of positions of another one, ascending.
//
//   SideLists(starts, stops)              of window o: starts[o] .. stops[o]
//   SideLists::inverse(lists, positions)  of position i: those o whose list has i, once for each time
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "repdl/backend.hpp"

namespace repdl::cpu {

struct SideLists {
  std::vector<std::int64_t> begin{0}, at;

  std::int64_t count() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  std::int64_t length(std::int64_t o) const { return begin[o + 1] - begin[o]; }
  const std::int64_t* list(std::int64_t o) const { return at.data() + begin[o]; }
  std::int64_t longest() const {
    std::int64_t result = 0;
    for (std::int64_t o = 0; o < count(); ++o) result = std::max(result, length(o));
    return result;
  }

  void add(std::int64_t start, std::int64_t stop) {
    for (std::int64_t i = start; i < stop; ++i) at.push_back(i);
    begin.push_back(static_cast<std::int64_t>(at.size()));
  }

  // Those of a side that is not there.
  static SideLists one() {
    SideLists result;
    result.add(0, 1);
    return result;
  }

  SideLists inverse(std::int64_t positions) const {
    SideLists result;
    std::vector<std::int64_t> next(static_cast<std::size_t>(positions), 0);
    for (const std::int64_t i : at) ++next[i];
    for (std::int64_t& n : next) {
      result.begin.push_back(result.begin.back() + n);
      n = result.begin[result.begin.size() - 2];
    }
    result.at.resize(at.size());
    for (std::int64_t o = 0; o < count(); ++o)
      for (std::int64_t k = begin[o]; k < begin[o + 1]; ++k) result.at[next[at[k]]++] = o;
    return result;
  }
};

}  // namespace repdl::cpu
