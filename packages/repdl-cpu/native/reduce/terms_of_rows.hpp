// Terms sorted by the row that each is for: a stable counting sort by index.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/scratch.hpp"

namespace repdl::cpu {

constexpr std::int64_t terms_at_once = 64;  // that are placed

template <class T>
struct TermRows {
  T* first;
  std::int64_t width;

  T* operator[](std::int64_t j) const { return first + j * width; }
};

// Terms sorted by row: those of row k are begin(k) <= j < begin(k) + count(k). `Place` counts them.
template <class Place>
class Terms {
 public:
  // put(i, to): term i goes to its row of `sorted`; i ascending.
  template <class T, class Put>
  Terms(const std::int64_t* index, std::int64_t n, std::int64_t size, TermRows<T> sorted, const Put& put)
      : begins_(size + 2) {
    Place* next = begins_.data() + 1;  // next[k]: first the number of terms, then where the next one goes
    std::fill(begins_.data(), begins_.data() + size + 2, Place(0));
    for (std::int64_t i = 0; i < n; ++i) ++next[index[i] + 1];
    for (std::int64_t k = 0; k < size; ++k) next[k + 1] += next[k];
    // The places of some terms first: otherwise a processor that has seen a place used just after it was written waits
    // before it loads the next one until it knows where the last term went. And their memory is on its way.
    T* to[terms_at_once];
    for (std::int64_t first = 0; first < n; first += terms_at_once) {
      const std::int64_t count = std::min(n - first, terms_at_once);
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] = sorted[next[index[first + i]]++];  // begin(k + 1) is left there
        __builtin_prefetch(to[i], 1);
      }
      for (std::int64_t i = 0; i < count; ++i) put(first + i, to[i]);
    }
  }

  std::int64_t begin(std::int64_t k) const { return begins_.data()[k]; }
  std::int64_t count(std::int64_t k) const { return begins_.data()[k + 1] - begins_.data()[k]; }

  // The first row at which as many as `work` rows and terms lie before it: shares of threads are as long as their work.
  std::int64_t row_at(std::int64_t work, std::int64_t size) const {
    std::int64_t low = 0, high = size;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (begin(middle) + middle < work)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

 private:
  Scratch<Place> begins_;
};

}  // namespace repdl::cpu
