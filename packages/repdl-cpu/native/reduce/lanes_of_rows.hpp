// The sums of rows of one element that have few terms each (index_sum.md), without a sort.
//
//   TwoLanes<T> rows(size, out);           or OneLane<T>, where most rows have no term; out: (size)
//   rows.clear(from, until);               all rows, in shares of threads
//   beyond += rows.add(x, index, n);       x[i] goes to row index[i], i ascending; the terms that came to full rows
//   rows.fold(from, until);                out[k] = the sum of row k
//   rows.too_many(k):                      row k has more terms than its lanes take; it has to be summed again
//
// Term i of a row goes to its lane i mod `lanes`, as it comes. That is the order of the contract for up to twice as
// many terms: its folds by more lanes find nothing to add, the one by `lanes` adds term i + lanes to term i, and the
// rest folds the lanes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/scratch.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cpu {

// How many terms each row has, up to one more than its lanes take.
template <int most>
class CountsOfRows {
 public:
  explicit CountsOfRows(std::int64_t size) : counts_(size) {}

  void clear(std::int64_t from, std::int64_t until) {
    std::fill(counts_.data() + from, counts_.data() + until, std::uint8_t(0));
  }
  std::uint8_t* data() const { return counts_.data(); }

  // Those before one more.
  [[gnu::always_inline]] static std::int64_t add(std::uint8_t& count) {
    const std::int64_t before = count;
    count = static_cast<std::uint8_t>(before + (before <= most));
    return before;
  }

 private:
  Scratch<std::uint8_t> counts_;
};

template <class T>
class TwoLanes {
 public:
  static constexpr std::int64_t lanes = 2, most = 4;  // terms

  TwoLanes(std::int64_t size, T* out) : out_(out), rows_(size), counts_(size) {}

  void clear(std::int64_t from, std::int64_t until) {
    std::fill(rows_.data() + from, rows_.data() + until, Row{});
    counts_.clear(from, until);
  }

  std::int64_t add(const T* __restrict x, const std::int64_t* __restrict index, std::int64_t n) {
    Row* __restrict const rows = rows_.data();
    std::uint8_t* __restrict const counts = counts_.data();
    std::int64_t beyond = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t k = index[i], before = CountsOfRows<most>::add(counts[k]);
      T& lane = rows[k].lane[before % 2];
      lane = lane + x[i];
      beyond += before >= most;
    }
    return beyond;
  }

  void fold(std::int64_t from, std::int64_t until) const {
    const Row* const rows = rows_.data();
    for (std::int64_t k = from; k < until; ++k) out_[k] = canonical(rows[k].lane[0] + rows[k].lane[1]);
  }

  std::int64_t count(std::int64_t k) const { return counts_.data()[k]; }
  bool too_many(std::int64_t k) const { return count(k) > most; }

 private:
  struct Row {  // in one cache line
    T lane[2];
  };

  T* out_;
  Scratch<Row> rows_;
  CountsOfRows<most> counts_;
};

// The lane is the sum.
template <class T>
class OneLane {
 public:
  static constexpr std::int64_t lanes = 1, most = 2;

  OneLane(std::int64_t size, T* out) : out_(out), counts_(size) {}

  void clear(std::int64_t from, std::int64_t until) {
    std::fill(out_ + from, out_ + until, T(0));
    counts_.clear(from, until);
  }

  std::int64_t add(const T* __restrict x, const std::int64_t* __restrict index, std::int64_t n) {
    T* __restrict const out = out_;
    std::uint8_t* __restrict const counts = counts_.data();
    std::int64_t beyond = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t k = index[i], before = CountsOfRows<most>::add(counts[k]);
      out[k] = canonical(out[k] + x[i]);
      beyond += before >= most;
    }
    return beyond;
  }

  void fold(std::int64_t, std::int64_t) const {}

  std::int64_t count(std::int64_t k) const { return counts_.data()[k]; }
  bool too_many(std::int64_t k) const { return count(k) > most; }

 private:
  T* out_;
  CountsOfRows<most> counts_;
};

}  // namespace repdl::cpu
