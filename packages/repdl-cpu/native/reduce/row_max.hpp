// The maximum of a row: comparisons are exact, so lanes may take them in any order.
#pragma once

#include <cstdint>
#include <limits>

#include "simd/row_loop.hpp"

namespace repdl::cpu {

// The largest element that is not NaN; -inf if there is none.
template <class T>
T row_max(const T* x, std::int64_t n) {
  constexpr int lanes = 64;
  T best[lanes];
  for (T& b : best) b = -std::numeric_limits<T>::infinity();
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int l = 0; l < lanes; ++l) best[l] = x[i + l] > best[l] ? x[i + l] : best[l];
  for (int l = 0; i < n; ++i, ++l) best[l] = x[i] > best[l] ? x[i] : best[l];
  for (int half = lanes / 2; half >= 1; half /= 2)
    for (int l = 0; l < half; ++l) best[l] = best[l + half] > best[l] ? best[l + half] : best[l];
  return best[0];
}

#if defined(__AVX2__) && defined(__FMA__)

// The largest lane; none is NaN.
inline float largest_lane(Vec x) {
#if defined(__AVX512F__)
  const __m256 y =
      _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x.v), 1)));
#else
  const __m256 y = x.v;
#endif
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// The same for floats: a short row has no 64 lanes to fold.
inline float row_max(const float* x, std::int64_t n) {
  if (n > 256) return row_max<float>(x, n);
  const Vec least = Vec::set1(-std::numeric_limits<float>::infinity());
  Vec best = least;
  row_loop(n, [&](std::int64_t i, auto part) {
    best = larger(select(first_lanes(part.n), part.load(x + i), least), best);  // `best` where an element is NaN
  });
  return largest_lane(best);
}

#endif

inline bool has_nan(const float* x, std::int64_t n) {
  int found = 0;
  for (std::int64_t i = 0; i < n; ++i) found |= x[i] != x[i];
  return found != 0;
}

}  // namespace repdl::cpu
