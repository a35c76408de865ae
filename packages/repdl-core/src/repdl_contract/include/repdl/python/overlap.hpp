// Whether tensors share memory: elements of one, and those of several. repdl.tensors.overlap has the same rules for
// calls that C does not decide.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "repdl/python/arguments.hpp"

#pragma GCC visibility push(hidden)
namespace repdl::python {

// Whether each stride steps over all that smaller ones reach. If not, elements may still be apart: Python decides.
inline bool is_nested(const DLTensor& tensor) {
  constexpr int most = 16;
  std::array<std::pair<std::int64_t, std::int64_t>, most> steps;  // strides and sizes, by stride
  int count = 0;
  for (int d = tensor.dims - 1; d >= 0; --d) {
    if (tensor.size[d] == 0) return true;
    if (tensor.size[d] == 1) continue;
    if (count == most) return false;
    int index = count++;
    for (; index > 0 && steps[index - 1].first > tensor.stride[d]; --index) steps[index] = steps[index - 1];
    steps[index] = {tensor.stride[d], tensor.size[d]};
  }
  std::int64_t reached = 0;
  for (int i = 0; i < count; ++i) {
    if (steps[i].first <= reached) return false;
    reached += steps[i].first * (steps[i].second - 1);
  }
  return true;
}

// The memory of a tensor that is written, or only read.
struct MemoryRange {
  const std::byte *begin, *end;
  bool is_written;
};

// Whether one that is written overlaps another one. Sorts them.
inline bool overlap(MemoryRange* first, MemoryRange* last) {
  std::sort(first, last, [](const MemoryRange& a, const MemoryRange& b) { return a.begin < b.begin; });
  const std::byte *end = nullptr, *end_written = nullptr;
  for (const MemoryRange* range = first; range != last; ++range) {
    if (range->begin == range->end) continue;
    if (range->begin < (range->is_written ? end : end_written)) return true;
    end = std::max(end, range->end);
    if (range->is_written) end_written = std::max(end_written, range->end);
  }
  return false;
}

}  // namespace repdl::python
#pragma GCC visibility pop
