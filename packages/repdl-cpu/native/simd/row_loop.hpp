// Loops over the elements of a row, a Vec at a time, and the contract's sums along them:
//
//   row_loop(n, body)              body(i, part) for elements i, i + Vec::width, ...
//   row_loop(n, first, both, apart, body)
//                                  both(i, first(i)) for two Vecs from i on, body for the rest; apart(at, count),
//                                  later, for the places i where both was false. The first stage of two Vecs is
//                                  computed beside the second of those before: a processor looks ahead so far only.
//   sum_each(n, contract, f)    the contract's sum of f(i, part) over a row, lanes in registers
//   sums_each<K>(...)           K such sums in one pass
//
// `part` loads and stores: a whole Vec, or what is left of the row at its end.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "simd/simd.hpp"
#include "reduce/sum.hpp"

namespace repdl::cpu {

struct Whole {
  static constexpr int n = Vec::width;
  static Vec load(const float* p) { return Vec::load(p); }
  static Vec load_streamed(const float* p) { return Vec::load_streamed(p); }
  static void store(float* p, Vec x) { x.store(p); }
};

// The first n elements of a Vec; the others load as +0 and are not stored.
struct Part {
  int n;
  Vec load(const float* p) const { return Vec::load(p, n); }
  Vec load_streamed(const float* p) const { return load(p); }
  void store(float* p, Vec x) const { x.store(p, n); }
};

// Loops call a copy of their own, which no store can reach: what it holds stays in registers.
template <class Body>
void row_loop(std::int64_t n, const Body& given) {
  const Body body = given;
  std::int64_t i = 0;
  for (; i + Vec::width <= n; i += Vec::width) body(i, Whole{});
  if (i < n) body(i, Part{static_cast<int>(n - i)});
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

// The lanes of a vector folded by halves: 8, 4, 2, 1.
inline float fold(Vec x) {
#if defined(__SSE2__)
#if defined(__AVX512F__)
  const __m256 y =
      _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x.v), 1)));
#elif defined(__AVX2__) && defined(__FMA__)
  const __m256 y = x.v;
#endif
#if defined(__AVX2__) && defined(__FMA__)
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
#else
  const __m128 four = x.v;
#endif
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
#else
  float last[Vec::width];
  x.store(last);
  fold_lanes(Vec::width, [&](int half) {
    for (int j = 0; j < half; ++j) last[j] = last[j] + last[j + half];
  });
  return last[0];
#endif
}

// K sums over one block of 64 lanes; f(i, part) gives elements begin + i on, an array of K Vecs.
template <int K, class F>
void sum_64_lanes(std::int64_t begin, std::int64_t n, const F& given, std::array<float, K>& sums) {
  const F f = given;
  constexpr int vectors = static_cast<int>(max_lanes) / Vec::width;
  constexpr int most = Vec::registers / 2 / K;
  constexpr int group = vectors < most ? vectors : most;  // narrow ISAs: several passes over the row
  const std::int64_t whole = n / max_lanes * max_lanes;
  Vec lane[K][vectors];
  for (int g = 0; g < vectors; g += group) {
    Vec acc[K][group];
    for (int k = 0; k < K; ++k)
      for (int v = 0; v < group; ++v) acc[k][v] = Vec::zero();
    for (std::int64_t i = begin + g * Vec::width; i < begin + whole; i += max_lanes)
      for (int v = 0; v < group; ++v) {
        const std::array<Vec, K> x = f(i + v * Vec::width, Whole{});
        for (int k = 0; k < K; ++k) acc[k][v] = acc[k][v] + x[k];
      }
    for (int k = 0; k < K; ++k)
      for (int v = 0; v < group; ++v) lane[k][g + v] = acc[k][v];
  }
  if (whole < n) {
    alignas(64) float rest[K][max_lanes] = {};  // a lane that has no more elements gets +0: no change
    row_loop(n - whole, [&](std::int64_t j, auto part) {
      const std::array<Vec, K> x = f(begin + whole + j, part);
      for (int k = 0; k < K; ++k) part.store(rest[k] + j, x[k]);
    });
    for (int k = 0; k < K; ++k)
      for (int v = 0; v < vectors; ++v) lane[k][v] = lane[k][v] + Vec::load(rest[k] + v * Vec::width);
  }
  fold_lanes(vectors, [&](int half) __attribute__((always_inline)) {
    for (int k = 0; k < K; ++k)
      for (int v = 0; v < half; ++v) lane[k][v] = lane[k][v] + lane[k][v + half];
  });
  for (int k = 0; k < K; ++k) sums[k] = fold(lane[k][0]);
}

// K sums of f(0) + ... + f(n - 1), f(i, part) giving an array of K Vecs of elements from i on.
template <int K, class F>
std::array<float, K> sums_each(std::int64_t n, const Contract& contract, const F& f) {
  std::array<float, K> sums;
  if (contract.sum_lanes != max_lanes) {
    REPDL_ROUTE("sum on the fly: other lanes", K);
    for (int k = 0; k < K; ++k)
      sums[k] = sum_filled(n, contract, [&f, k](std::int64_t start, std::int64_t count, float* dst) {
        row_loop(count, [&](std::int64_t i, auto part) { part.store(dst + i, f(start + i, part)[k]); });
      });
    return sums;
  }
  const std::int64_t block = sum_block_of(contract, n);
  if (n <= block) {
    REPDL_ROUTE("sum on the fly: one block", K);
    sum_64_lanes<K>(0, n, f, sums);
    return sums;
  }
  REPDL_ROUTE("sum on the fly: several blocks", K);
  Tree<float> tree[K];
  for (std::int64_t i = 0; i < n; i += block) {
    sum_64_lanes<K>(i, std::min(block, n - i), f, sums);
    for (int k = 0; k < K; ++k) tree[k].push(sums[k]);
  }
  for (int k = 0; k < K; ++k) sums[k] = tree[k].result();
  return sums;
}

// f(0) + ... + f(n - 1), f(i, part) giving a Vec of elements from i on.
template <class F>
float sum_each(std::int64_t n, const Contract& contract, const F& f) {
  return sums_each<1>(n, contract, [&f](std::int64_t i, auto part) { return std::array<Vec, 1>{f(i, part)}; })[0];
}

}  // namespace repdl::cpu
