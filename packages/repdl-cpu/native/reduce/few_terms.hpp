// Sums of few terms (sum.md), many columns at once: as many as there are lanes at most, so that each is a lane.
//
//   if (fits_lanes(n, contract)) fold_terms<T>(n, columns, term, out);
//     out[c] = the sum of term.at(i, load)[c] over i < n, canonical
//
// A lane of one term is +0 + x, which is x but for -0, and no sum of lanes is -0: the lanes are the terms
// themselves here, and +0 is added to the result, which has the same bits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/routes.hpp"
#include "reduce/register_lanes.hpp"
#include "reduce/sum.hpp"
#include "simd/simd.hpp"
#include "simd/simd_double.hpp"

namespace repdl::cpu {

inline bool fits_lanes(std::int64_t n, const Contract& contract) {
  return n <= contract.sum_lanes && (contract.sum_block == 0 || n <= contract.sum_block);
}

// Lane j after the folds by 64, 32, ..., half.
template <class V, int count, int half, int j, class Lane>
[[gnu::always_inline]] inline V folded_lane(const Lane& lane) {
  if constexpr (half >= count)
    return lane(j);
  else if constexpr (j + half < count)
    return folded_lane<V, count, 2 * half, j>(lane) + folded_lane<V, count, 2 * half, j + half>(lane);
  else
    return folded_lane<V, count, 2 * half, j>(lane);
}

constexpr int most_unrolled_terms = 16;
constexpr std::int64_t few_lanes = 2;

template <class T, int count, class Term>
void fold_terms_of(std::int64_t columns, const Term& term, T* out) {
  using V = VecOf<T>;
  std::int64_t c = 0;
  for (; c + V::width <= columns; c += V::width)
    canonical(folded_lane<V, count, 1, 0>([&](int i) { return term(i, c, V::width); }) + V::zero()).store(out + c);
  const int rest = static_cast<int>(columns - c);
  if (rest > 0)
    canonical(folded_lane<V, count, 1, 0>([&](int i) { return term(i, c, rest); }) + V::zero()).store(out + c, rest);
}

template <class T, int count, class Term>
void fold_unrolled(int n, std::int64_t columns, const Term& term, T* out) {
  if (n == count) return fold_terms_of<T, count>(columns, term, out);
  if constexpr (count < most_unrolled_terms) fold_unrolled<T, count + 1>(n, columns, term, out);
}

// term(i, c, n): columns c .. c + n of term i, at most as many as a vector has.
template <class T, class Term>
void fold_terms(std::int64_t n, std::int64_t columns, const Term& term, T* out) {
  using V = VecOf<T>;
  if (n == 0) return std::fill(out, out + columns, T(0));
  if (n <= most_unrolled_terms) {
    REPDL_ROUTE("few terms: unrolled", sizeof(T));
    return fold_unrolled<T, 1>(static_cast<int>(n), columns, term, out);
  }
  REPDL_ROUTE("few terms: lanes in memory", sizeof(T));
  for (std::int64_t c = 0; c < columns; c += V::width) {
    const int width = static_cast<int>(std::min<std::int64_t>(V::width, columns - c));
    V lane[max_lanes];
    for (int i = 0; i < n; ++i) lane[i] = term(i, c, width);
    std::int64_t filled = n;
    fold_lanes(max_lanes, [&](std::int64_t half) {
      for (std::int64_t j = 0; j + half < filled; ++j) lane[j] = lane[j] + lane[j + half];
      filled = std::min(filled, half);
    });
    canonical(lane[0] + V::zero()).store(out + c, width);
  }
}

// The sum of terms begin .. end of a block: lanes, folded.
template <class T, class Term>
VecOf<T> block_of_terms(std::int64_t begin, std::int64_t end, std::int64_t lanes, std::int64_t c, int n,
                        const Term& term) {
  VecOf<T> lane[max_lanes];
  std::int64_t filled = std::min(lanes, end - begin);
  for (std::int64_t l = 0; l < filled; ++l) lane[l] = VecOf<T>::zero();
  if (lanes <= few_lanes) {  // in registers
    for (std::int64_t l = 0; l < filled; ++l)
      for (std::int64_t k = begin + l; k < end; k += lanes) lane[l] = lane[l] + term(k, c, n);
  } else {  // in the order in which terms lie in memory; and no lane waits for its sums
    std::int64_t k = begin;
    for (; k + lanes <= end; k += lanes)
      for (std::int64_t l = 0; l < lanes; ++l) lane[l] = lane[l] + term(k + l, c, n);
    for (std::int64_t l = 0; l < end - k; ++l) lane[l] = lane[l] + term(k + l, c, n);
  }
  fold_lanes(lanes, [&](std::int64_t half) {
    for (std::int64_t l = 0; l + half < filled; ++l) lane[l] = lane[l] + lane[l + half];
    filled = std::min(filled, half);
  });
  return lane[0];
}

// out[c] = the sum of term(k, c) over k < terms, canonical, however many there are.
template <class T, class Term>
void sum_terms_of_columns(std::int64_t terms, std::int64_t columns, const Contract& contract, const Term& term,
                          T* out) {
  using Vector = VecOf<T>;
  if (fits_lanes(terms, contract)) return fold_terms(terms, columns, term, out);
  const std::int64_t block = sum_block_of(contract, terms);
  for (std::int64_t c = 0; c < columns; c += Vector::width) {
    const int n = static_cast<int>(std::min<std::int64_t>(Vector::width, columns - c));
    Tree<Vector, 40> tree;
    std::int64_t begin = 0;
    for (; begin + block < terms; begin += block)
      tree.push(block_of_terms<T>(begin, begin + block, contract.sum_lanes, c, n, term));
    canonical(tree.finish(block_of_terms<T>(begin, terms, contract.sum_lanes, c, n, term))).store(out + c, n);
  }
}

// Rows in memory.
template <class T>
struct RowTerms {
  const T* const* row;

  VecOf<T> operator()(std::int64_t i, std::int64_t c, int n) const {
    return n == VecOf<T>::width ? VecOf<T>::load(row[i] + c) : VecOf<T>::load(row[i] + c, n);
  }
};

// Rows in memory, each multiplied by a number.
template <class T>
struct WeightedTerms {
  const T* const* row;
  const T* weight;

  VecOf<T> operator()(std::int64_t i, std::int64_t c, int n) const {
    return RowTerms<T>{row}(i, c, n) * VecOf<T>::set1(weight[i]);
  }
};

// Rows of a list, as what follows takes them.
template <class List>
auto in_list(const List& rows) {
  return [&rows](std::int64_t i) { return rows[i]; };
}

// out[c] = the sum of row(i)[c] over i < n, canonical, however many there are.
template <class T, class Row>
void sum_rows(std::int64_t n, std::int64_t columns, const Row& row, T* out, const Contract& contract) {
  const bool in_registers = n > most_unrolled_terms && columns >= VecOf<T>::width && fits_registers(n, contract);
  if (!in_registers && fits_lanes(n, contract)) {
    const T* term[max_lanes];
    for (std::int64_t i = 0; i < n; ++i) term[i] = row(i);
    return fold_terms(n, columns, RowTerms<T>{term}, out);
  }
  for (std::int64_t c = 0; c < columns; c += max_sum_columns) {
    const std::int64_t width = std::min(max_sum_columns, columns - c);
    const auto piece = [&row, c](std::int64_t i) { return row(i) + c; };
    if (in_registers)
      sum_in_registers(n, width, piece, out + c, contract);
    else
      sum_columns(n, width, false, piece, out + c, contract);
    for (std::int64_t i = c; i < c + width; ++i) out[i] = canonical(out[i]);
  }
}

}  // namespace repdl::cpu
