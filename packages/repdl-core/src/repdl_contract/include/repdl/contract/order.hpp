// The accumulation orders of the contract: parameters, and the binary tree as a counter.
#pragma once

#include <cstdint>

#include "repdl/host_device.hpp"

namespace repdl {

// Fields of repdl.Contract; 0 stands for "no limit" where the Python class says so.
struct Contract {
  std::int64_t dot_chunk = 256;
  std::int64_t sum_lanes = 64;
  std::int64_t sum_block = 1024;
};

// The tree splits n parts at the largest power of two below n. Parts that arrive in
// ascending order can be joined as a binary counter counts: after part number `index`
// every trailing one bit of `index` is a complete left sibling, joined as left + right;
// after the last part every one bit is. The two functions walk those levels upwards.
REPDL_HD inline int tree_level_after(std::int64_t index) {
  int level = 0;
  while ((index >> level) & 1) ++level;
  return level;
}

REPDL_HD inline int tree_levels(std::int64_t parts) {
  int levels = 0;
  while ((std::int64_t{1} << levels) < parts) ++levels;
  return levels;
}

// Joins scalar parts: push each in order, then take the result.
template <class T>
class Tree {
 public:
  REPDL_HD void push(T part) {
    int level = 0;
    for (; (count_ >> level) & 1; ++level) part = parts_[level] + part;
    parts_[level] = part;
    ++count_;
  }

  // The joined result; +0 if nothing was pushed.
  REPDL_HD T result() const {
    if (count_ == 0) return T(0);
    int level = tree_level_after(~count_);  // lowest one bit of count_
    T joined = parts_[level];
    for (++level; (count_ >> level) != 0; ++level)
      if ((count_ >> level) & 1) joined = parts_[level] + joined;
    return joined;
  }

 private:
  std::int64_t count_ = 0;
  T parts_[63];
};

// The same over `count` parts in memory, in place: neighbours, level by level. +0 for none.
template <class T>
REPDL_HD T joined(T* parts, std::int64_t count) {
  if (count == 0) return T(0);
  for (; count > 1; count = (count + 1) / 2) {
    for (std::int64_t i = 0; i < count / 2; ++i) parts[i] = parts[2 * i] + parts[2 * i + 1];
    if (count % 2 != 0) parts[count / 2] = parts[count - 1];
  }
  return parts[0];
}

}  // namespace repdl
