// The tree of the contract over chunks of N vectors of outputs at once (order.hpp).
#pragma once

#include <cstdint>

#include "simd/simd.hpp"

namespace repdl::cpu {

template <int N>
class ChunkTree {
 public:
  // The finished chains of one chunk, in ascending order of chunks.
  void push(Vec (&part)[N]) {
    int l = 0;
    for (; (count_ >> l) & 1; ++l) join(l, part);
    for (int i = 0; i < N; ++i) level_[l][i] = part[i];
    ++count_;
  }

  // The last chunk: `part` becomes the result.
  void finish(Vec (&part)[N]) const {
    for (int l = 0; (count_ >> l) != 0; ++l)
      if ((count_ >> l) & 1) join(l, part);
  }

 private:
  void join(int l, Vec (&part)[N]) const {
    for (int i = 0; i < N; ++i) part[i] = level_[l][i] + part[i];
  }

  std::int64_t count_ = 0;
  Vec level_[40][N];
};

}  // namespace repdl::cpu
