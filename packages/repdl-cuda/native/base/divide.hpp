// Division by a number that is known before the launch: a multiplication and a shift.
#pragma once

#include <cstdint>

#include "repdl/host_device.hpp"

namespace repdl::cuda {

struct Division {
  int quotient, remainder;
};

// n / divisor for 0 <= n < 2^31 and divisor >= 1. With 2^(s-1) < divisor <= 2^s and
// m = ceil(2^(31+s) / divisor), n * m / 2^(31+s) exceeds n / divisor by less than
// n / 2^31 / divisor, which reaches no next integer.
class FastDivmod32 {
 public:
  explicit FastDivmod32(int divisor) : divisor_(divisor < 1 ? 1 : divisor) {
    int s = 0;
    while ((std::int64_t{1} << s) < divisor_) ++s;
    shift_ = 31 + s;
    multiplier_ = static_cast<std::uint32_t>(((std::uint64_t{1} << shift_) + divisor_ - 1) / divisor_);
  }

  REPDL_HD int operator()(int n) const {
    return static_cast<int>(static_cast<std::uint64_t>(static_cast<std::uint32_t>(n)) * multiplier_ >> shift_);
  }
  REPDL_HD Division split(int n) const {
    const int quotient = (*this)(n);
    return {quotient, n - quotient * divisor_};
  }
  REPDL_HD int divisor() const { return divisor_; }

 private:
  int divisor_, shift_;
  std::uint32_t multiplier_;
};

}  // namespace repdl::cuda
