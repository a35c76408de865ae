// The accumulation orders of the contract: parameters, the tree, and the fold of lanes. The walk over the
// tree is written here and nowhere else: a kernel says what joining two of its values is, be they numbers
// or tiles of outputs.
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

// The tree splits n values at the largest power of two below n.
//
// Values that come one after the other are joined as a binary counter counts: after value number
// `index`, every trailing one bit of `index` is a complete left sibling, which waits at the level
// of that bit; after the last value every one bit is. Calls join(level), which makes the value that
// came the sum (sibling at level) + value, in ascending order; returns the level where it waits next.
template <class Join>
REPDL_HD_INLINE int tree_join(std::int64_t index, bool last, const Join& join) {
  int level = 0;
  for (; last ? (index >> level) != 0 : (index >> level) & 1; ++level)
    if ((index >> level) & 1) join(level);
  return level;
}

// How many levels n values wait at.
REPDL_HD constexpr int tree_levels(std::int64_t n) {
  int levels = 0;
  while ((std::int64_t{1} << levels) < n) ++levels;
  return levels;
}

// Values of T that come one after the other, in memory of its own.
template <class T, int max_levels = 63>
class Tree {
 public:
  REPDL_HD_INLINE void push(T value) {
    const int level = tree_join(count_, false, [&](int l) { value = waiting_[l] + value; });
    waiting_[level] = value;
    ++count_;
  }

  // The result of all that were pushed and of one more, the last.
  REPDL_HD_INLINE T finish(T last) const {
    tree_join(count_, true, [&](int l) { last = waiting_[l] + last; });
    return last;
  }

  // The result of all that were pushed; +0 of none.
  REPDL_HD T result() const {
    if (count_ == 0) return T(0);
    int level = 0;
    while (!((count_ >> level) & 1)) ++level;
    T value = waiting_[level];  // of the last one, and what it was joined with
    tree_join(count_ - (std::int64_t{1} << level), true, [&](int l) { value = waiting_[l] + value; });
    return value;
  }

 private:
  std::int64_t count_ = 0;
  T waiting_[max_levels];
};

// Values in memory, in place: join(i, j) makes value i the sum of values i and j. The result is value 0.
template <class Join>
REPDL_HD_INLINE void tree_in_place(std::int64_t n, const Join& join) {
  for (std::int64_t step = 1; step < n; step *= 2)
    for (std::int64_t i = 0; i + step < n; i += 2 * step) join(i, i + step);
}

// The same of numbers; +0 of none.
template <class T>
REPDL_HD T tree_of(T* values, std::int64_t n) {
  tree_in_place(n, [=](std::int64_t i, std::int64_t j) { values[i] = values[i] + values[j]; });
  return n == 0 ? T(0) : values[0];
}

// The lanes of a block, a power of two, fold by halves: fold(half) makes lane j the sum of lanes j and
// j + half, for every j < half. The result is lane 0.
template <class Lanes, class Fold>
REPDL_HD_INLINE void fold_lanes(Lanes lanes, const Fold& fold) {
  for (Lanes half = lanes / 2; half >= 1; half /= 2) fold(half);
}

}  // namespace repdl
