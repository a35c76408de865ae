// The contract's sums along a row, a Vec at a time, lanes in registers:
//
//   sum_each(n, contract, f)    the sum of f(i, part) over a row
//   sums_each<K>(...)           K such sums in one pass
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "reduce/sum.hpp"
#include "simd/row_loop.hpp"

namespace repdl::cpu {

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

// 64 lanes folded by halves.
inline float fold_of_vectors(Vec (&lane)[max_lanes / Vec::width]) {
  fold_lanes(max_lanes / Vec::width, [&](std::int64_t half) __attribute__((always_inline)) {
    for (std::int64_t v = 0; v < half; ++v) lane[v] = lane[v] + lane[v + half];
  });
  return fold(lane[0]);
}

// A function of the elements of a row may be simpler on a stretch of them: f.stretch(i) is that function from i to
// its `end`. Every other one is simple everywhere.
template <class F>
struct Everywhere {
  static constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
  const F& f;

  template <class P>
  [[gnu::always_inline]] auto operator()(std::int64_t i, P part) const {
    return f(i, part);
  }
};

template <class F>
auto stretch_of(const F& f, std::int64_t i, int) -> decltype(f.stretch(i)) {
  return f.stretch(i);
}
template <class F>
Everywhere<F> stretch_of(const F& f, std::int64_t, long) {
  return {f};
}

// K sums of at most as many elements as there are lanes, each of which is +0 + x (see sum_64_lanes).
template <int K, class F>
void sum_of_lanes(std::int64_t begin, std::int64_t n, const F& given, std::array<float, K>& sums) {
  const F f = given;
  constexpr int vectors = static_cast<int>(max_lanes) / Vec::width;
  Vec lane[K][vectors];
  for (int k = 0; k < K; ++k)
    for (int v = 0; v < vectors; ++v) lane[k][v] = Vec::zero();
  row_loop(n, [&](std::int64_t i, auto part) {
    const std::array<Vec, K> x = f(begin + i, part);
    for (int k = 0; k < K; ++k) lane[k][i / Vec::width] = Vec::zero() + part.only(x[k]);
  });
  for (int k = 0; k < K; ++k) sums[k] = fold_of_vectors(lane[k]);
}

// K sums over one block of 64 lanes; f(i, part) gives elements begin + i on, an array of K Vecs.
template <int K, class F>
void sum_64_lanes(std::int64_t begin, std::int64_t n, const F& given, std::array<float, K>& sums) {
  const F f = given;
  constexpr int vectors = static_cast<int>(max_lanes) / Vec::width;
  constexpr int most = Vec::registers / 2 / K;
  constexpr int group = vectors < most ? vectors : most;  // narrow ISAs: several passes over the row
  const std::int64_t whole = n / max_lanes * max_lanes;
  if (n <= max_lanes) return sum_of_lanes<K>(begin, n, f, sums);
  Vec lane[K][vectors];
  for (int g = 0; g < vectors; g += group) {
    Vec acc[K][group];
    for (int k = 0; k < K; ++k)
      for (int v = 0; v < group; ++v) acc[k][v] = Vec::zero();
    const auto add = [&acc](const auto& elements, std::int64_t i) __attribute__((always_inline)) {
      for (int v = 0; v < group; ++v) {
        const std::array<Vec, K> x = elements(i + v * Vec::width, FullVector{});
        for (int k = 0; k < K; ++k) acc[k][v] = acc[k][v] + x[k];
      }
    };
    for (std::int64_t i = begin + g * Vec::width; i < begin + whole;) {
      const auto here = stretch_of(f, i, 0);
      const std::int64_t end = std::min(begin + whole, here.end - (group * Vec::width - 1));
      if (i < end) {
        for (; i < end; i += max_lanes) add(here, i);
      } else {  // partly in the next stretch
        add(f, i);
        i += max_lanes;
      }
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
  for (int k = 0; k < K; ++k) sums[k] = fold_of_vectors(lane[k]);
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
