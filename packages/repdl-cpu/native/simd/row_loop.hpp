// Loops over the elements of a row, a Vec at a time:
//
//   row_loop(n, body)              body(i, part) for elements i, i + Vec::width, ...
//   row_loop(n, first, both, apart, body)
//                                  software-pipelined: first(i), stage 1 of the next two Vecs, beside both(i, state),
//                                  stage 2 of these; `apart` gets the indices that fail the rounding test
//
// `part` loads and stores: a whole Vec, or what is left of the row at its end.
#pragma once

#include <cstdint>

#include "simd/simd_mask.hpp"

namespace repdl::cpu {

struct FullVector {
  static constexpr int n = Vec::width;
  static Vec load(const float* p) { return Vec::load(p); }
  static Vec load_streamed(const float* p) { return Vec::load_streamed(p); }
  static void store(float* p, Vec x) { x.store(p); }
  static Vec only(Vec x) { return x; }
};

// The first n elements of a Vec; the others load as +0 and are not stored.
struct MaskedTail {
  int n;
  Vec load(const float* p) const { return Vec::load(p, n); }
  Vec load_streamed(const float* p) const { return load(p); }
  void store(float* p, Vec x) const { x.store(p, n); }
  Vec only(Vec x) const { return mask_or_zero(first_lanes(n), x); }  // and +0 elsewhere
};

// Loops call a copy of their own, which no store can reach: what it holds stays in registers.
template <class Body>
void row_loop(std::int64_t n, const Body& given) {
  const Body body = given;
  std::int64_t i = 0;
  for (; i + Vec::width <= n; i += Vec::width) body(i, FullVector{});
  if (i < n) body(i, MaskedTail{static_cast<int>(n - i)});
}

template <class First, class Both, class Apart, class Body>
void row_loop(std::int64_t n, const First& given_first, const Both& given_both, const Apart& apart, const Body& body) {
  const First first = given_first;
  const Both both = given_both;
  constexpr int W = Vec::width;
  const std::int64_t pairs = n / (2 * W) * (2 * W);
  // Left for later, so that one is not waited for: the first instructions of the next are under way by then.
  constexpr int most = 64;
  std::int64_t left[most];
  int count = 0;
  auto state = pairs == 0 ? decltype(first(0))() : first(0);
  for (std::int64_t i = 0; i < pairs; i += 2 * W) {
    const auto next = i + 2 * W < pairs ? first(i + 2 * W) : state;
    const bool decided = both(i, state);
    state = next;
    if (__builtin_expect(decided, 1)) continue;
    left[count++] = i;
    if (count < most) continue;
    apart(left, count);
    count = 0;
  }
  if (count != 0) apart(left, count);
  row_loop(n - pairs, [&](std::int64_t i, auto part) { body(pairs + i, part); });
}

}  // namespace repdl::cpu
