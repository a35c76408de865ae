// A side of n elements, and the elements of it that are repeated before and after it (pad.md).
#pragma once

#include "repdl/backend.hpp"
#include "repdl/host_device.hpp"

namespace repdl {

struct PaddedSide {
  enum class Mode { reflect, replicate, circular };

  Mode mode;
  std::int64_t n, left, right;

  PaddedSide(std::string_view name, std::int64_t size, std::int64_t before, std::int64_t after)
      : mode(name == "replicate"  ? Mode::replicate
             : name == "circular" ? Mode::circular
                                  : Mode::reflect),
        n(size), left(before), right(after) {}

  REPDL_HD std::int64_t padded() const { return left + n + right; }

  // The element that position i, from -left to n + right, copies.
  REPDL_HD std::int64_t source(std::int64_t i) const {
    if (i >= 0 && i < n) return i;
    if (mode == Mode::replicate) return i < 0 ? 0 : n - 1;
    if (mode == Mode::circular) return i < 0 ? i + n : i - n;
    return i < 0 ? -i : 2 * (n - 1) - i;
  }
};

}  // namespace repdl
