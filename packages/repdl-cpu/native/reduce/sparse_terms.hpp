// Terms sorted by the row that each is for, where most rows have none: no loop goes through all rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/scratch.hpp"

namespace repdl::cpu {

// The rows that have terms, ascending: row(r) for r < rows(), with the terms place(j) for begin(r) <= j < begin(r + 1),
// ascending. Rows and terms are fewer than 2^32.
class SparseTerms {
 public:
  SparseTerms(const std::int64_t* index, std::int64_t n, std::int64_t size) : entries_(2 * n) {
    Entry *from = entries_.data(), *to = from + n;
    for (std::int64_t i = 0; i < n; ++i) from[i] = {static_cast<Number>(index[i]), static_cast<Number>(i)};
    for (int shift = 0; shift < 32 && (size - 1) >> shift != 0; shift += digit_bits) {
      sort_by_digit(from, n, shift, to);
      std::swap(from, to);
    }
    sorted_ = from;
    for (std::int64_t j = 0; j < n; ++j)
      if (j == 0 || from[j].row != from[j - 1].row) begins_.push_back(j);
    rows_ = static_cast<std::int64_t>(begins_.size());
    begins_.push_back(n);
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t row(std::int64_t r) const { return sorted_[begin(r)].row; }
  std::int64_t begin(std::int64_t r) const { return begins_[static_cast<std::size_t>(r)]; }
  std::int64_t count(std::int64_t r) const { return begin(r + 1) - begin(r); }
  std::int64_t place(std::int64_t j) const { return sorted_[j].place; }

 private:
  using Number = std::uint32_t;
  struct Entry {
    Number row, place;
  };
  static constexpr int digit_bits = 11;
  static constexpr Number digits = Number(1) << digit_bits;

  // Stable.
  static void sort_by_digit(const Entry* from, std::int64_t n, int shift, Entry* to) {
    const auto digit = [shift](const Entry& entry) { return (entry.row >> shift) & (digits - 1); };
    std::int64_t next[digits + 1] = {};
    for (std::int64_t i = 0; i < n; ++i) ++next[digit(from[i]) + 1];
    for (Number d = 0; d < digits; ++d) next[d + 1] += next[d];
    for (std::int64_t i = 0; i < n; ++i) to[next[digit(from[i])]++] = from[i];
  }

  Scratch<Entry> entries_;
  const Entry* sorted_;
  std::vector<std::int64_t> begins_;
  std::int64_t rows_;
};

}  // namespace repdl::cpu
