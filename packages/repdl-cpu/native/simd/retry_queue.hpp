// Elements that TestedVecs leave undecided (simd_mask.hpp), computed by themselves, a Vec of them at a time.
#pragma once

#include <array>
#include <cstdint>

#include "simd/simd_mask.hpp"

namespace repdl::cpu {

template <int arguments, class F>
class RetryQueue;

#if defined(__AVX2__) && defined(__FMA__)

// Results of f, of an array of arguments, into out.
template <int arguments, class F>
class RetryQueue {
 public:
  using Arguments = std::array<Vec, arguments>;

  RetryQueue(const F& f, float* out) : f_(f), out_(out) {}
  ~RetryQueue() {
    if (count_ != 0) compute();
  }

  // Of the Vec whose results were stored in out from `at` on.
  void add(std::int64_t at, const Arguments& x, Mask undecided) {
    for (unsigned lanes = lanes_of(undecided); lanes != 0; lanes &= lanes - 1) {
      const int lane = __builtin_ctz(lanes);
      place_[count_] = at + lane;
      for (int k = 0; k < arguments; ++k) x_[k][count_] = reinterpret_cast<const float*>(&x[k])[lane];
      if (++count_ == Vec::width) compute();
    }
  }

 private:
  void compute() {
    Arguments x;
    for (int k = 0; k < arguments; ++k) x[k] = Vec::load(x_[k]);
    float y[Vec::width];
    f_(x).store(y);
    for (int i = 0; i < count_; ++i) out_[place_[i]] = y[i];
    count_ = 0;
  }

  const F& f_;
  float* out_;
  float x_[arguments][Vec::width] = {};
  std::int64_t place_[Vec::width];
  int count_ = 0;
};

#endif

}  // namespace repdl::cpu
