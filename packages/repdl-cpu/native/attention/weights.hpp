// Weights of attention, a block of queries at a time (attention.md, steps 1 to 6).
#pragma once

#include <algorithm>
#include <limits>

#include "attention/mask.hpp"
#include "attention/operands.hpp"
#include "random/words.hpp"
#include "reduce/softmax.hpp"
#include "repdl/random/draws.hpp"

namespace repdl::cpu::attention {

// What a head needs besides its operands. A head of keys has several of queries, their rows one below the other.
struct Options {
  Mask mask;
  const Tensor& position;  // of the draw of dropout, if there is one
  float factor;
  double dropout_p;
  bool causal;
  std::int64_t rows, length, keys;  // queries of a head of keys, of a head, keys
  std::int64_t heads, shared;       // of keys, and how many of queries share one
  Contract contract;

  Options(const Tensor& query, const Tensor& key, const Tensor& bias, const Tensor& mask, const Tensor& position,
          const Tensor& factor, double dropout_p, bool causal, std::int64_t length, const Contract& contract)
      : mask(bias, mask), position(position), factor(*factor.as<float>()), dropout_p(dropout_p), causal(causal),
        rows(query.size[2]), length(length), keys(key.size[2]), heads(key.size[1]), shared(query.size[2] / length),
        contract(contract) {}

  // How many keys row r sees: those that come after them have no weight.
  std::int64_t visible(std::int64_t r) const { return causal ? std::min(r % length + 1, keys) : keys; }

  // How many any of the rows from r on sees.
  std::int64_t visible(std::int64_t r, std::int64_t rows) const {
    return r % length + rows > length ? visible(length - 1) : visible(r + rows - 1);
  }
};

enum class RowKind : char { plain, hidden, nan };

// Rows of one head, from `first` on.
struct Rows {
  const Options& options;
  std::int64_t head, first, count;

  std::int64_t batch() const { return head / options.heads; }
  std::int64_t query_head(std::int64_t i) const {
    return head % options.heads * options.shared + (first + i) / options.length;
  }
  std::int64_t query(std::int64_t i) const { return (first + i) % options.length; }
  std::int64_t visible(std::int64_t i) const { return options.visible(first + i); }
};

inline bool all_minus_infinity(const float* x, std::int64_t n) {
  return std::all_of(x, x + n, [](float score) { return score == -std::numeric_limits<float>::infinity(); });
}

// Scores (count, limit), as products, become weights; `limit` keys are at least what the rows see. A row with a NaN is
// NaN throughout, for the keys beyond `limit` too; one that a mask hides is +0.
inline void to_weights(float* scores, std::int64_t ld, std::int64_t limit, const Rows& rows, RowKind* kind) {
  const Options& options = rows.options;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    float* x = scores + i * ld;
    const std::int64_t visible = rows.visible(i);
    options.mask.apply(x, options.factor, visible, rows.batch(), rows.query_head(i), rows.query(i));
    kind[i] = RowKind::plain;
    float beyond = 0.0f;
    if (options.mask.given() && all_minus_infinity(x, visible)) {
      kind[i] = RowKind::hidden;
      std::fill_n(x, visible, 0.0f);
    } else {
      const float sum =
          exp_row(x, visible, options.contract, [x](std::int64_t j, auto part, Vec e) { part.store(x + j, e); }).sum;
      if (sum != sum) {
        kind[i] = RowKind::nan;
        beyond = canonical(sum);
      }
      row_loop(visible,
               [=](std::int64_t j, auto part) { part.store(x + j, canonical(part.load(x + j) / Vec::set1(sum))); });
    }
    std::fill(x + visible, x + limit, beyond);
  }
}

// Dropout of weights or their gradients (count, limit): those of all heads are one draw, (batch, heads, length, keys).
inline void drop(float* x, std::int64_t limit, const Rows& rows) {
  const Options& options = rows.options;
  if (!options.position.given) return;
  const random::Position at(options.position);
  const random::Dropout<float> f(options.dropout_p);
  const std::int64_t keys = options.keys, first = (rows.head * options.rows + rows.first) * keys;
  alignas(64) std::uint32_t words[words_at_once];
  const auto several = [&](std::int64_t begin, std::int64_t end) {
    in_batches(at, first + begin, first + end, [&](const Batch& batch) {
      fill_words(at, batch, 0, words);
      float* __restrict y = x + (batch.element - first);
      const std::uint32_t* __restrict word = words + batch.skip;
      const random::Dropout<float> g = f;
      for (std::int64_t j = 0; j < batch.count; ++j) y[j] = g(word[j], y[j]);
    });
  };
  if (limit == keys) return several(0, rows.count * keys);
  REPDL_ROUTE("attention: dropout of the keys that are not left out");
  for (std::int64_t i = 0; i < rows.count; ++i) several(i * keys, i * keys + limit);
}

}  // namespace repdl::cpu::attention
