// The contract's tree in a thread: its levels are indexed at run time, so they lie in local memory, which a driver
// reserves for every thread that a GPU can hold.
#pragma once

#include "repdl/contract/order.hpp"

namespace repdl::cuda {

constexpr std::int64_t most_in_thread = (std::int64_t{1} << 32) - 1;

// Of at most most_in_thread values.
template <class T>
using ThreadTree = Tree<T, 32>;

// Of at most `count` values.
template <class T, int count>
using SmallTree = Tree<T, tree_levels(count) + 1>;

}  // namespace repdl::cuda
