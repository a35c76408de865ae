// Sums of eight rows in memory at once (sum.md), of at most as many terms as there are lanes, each a lane of its own:
//
//   if (sum_eight_rows(x, begin, most, out)) row k is x[begin(k)] .. x[begin(k + 1)), out[k] its sum, for k < 8
//
// False, and nothing is written, if one of them has more terms. What lies behind the rows is read, up to max_lanes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/routes.hpp"
#include "reduce/sum.hpp"
#include "simd/simd.hpp"

namespace repdl::cpu {

#if defined(__AVX2__) && defined(__FMA__)

// The lanes of each of eight vectors folded by halves: 4, 2, 1.
inline __m256 fold_each(const __m256 (&x)[8]) {
  __m256 four[4], two[2];
  for (int i = 0; i < 4; ++i)  // of rows i and i + 4
    four[i] = _mm256_add_ps(_mm256_permute2f128_ps(x[i], x[i + 4], 0x20), _mm256_permute2f128_ps(x[i], x[i + 4], 0x31));
  for (int i = 0; i < 2; ++i) {  // of rows 2 i, 2 i + 1 and those four further
    const __m256d a = _mm256_castps_pd(four[2 * i]), b = _mm256_castps_pd(four[2 * i + 1]);
    two[i] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
  }
  return _mm256_add_ps(_mm256_shuffle_ps(two[0], two[1], 0x88), _mm256_shuffle_ps(two[0], two[1], 0xdd));
}

// Of rows of up to 8 * vectors terms.
template <int vectors, class Begin>
void sum_eight_rows_of(const float* x, const Begin& begin, const int (&count)[8], float* out) {
  REPDL_ROUTE("eight rows", vectors);
  const __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256 row[8];
  for (int k = 0; k < 8; ++k) {
    const float* first = x + begin(k);
    __m256 part[vectors];
    for (int v = 0; v < vectors; ++v) {
      const __m256i is_term = _mm256_cmpgt_epi32(_mm256_set1_epi32(count[k] - 8 * v), place);
      part[v] = _mm256_and_ps(_mm256_loadu_ps(first + 8 * v), _mm256_castsi256_ps(is_term));
    }
    fold_lanes(vectors, [&](int half) __attribute__((always_inline)) {
      for (int v = 0; v < half; ++v) part[v] = _mm256_add_ps(part[v], part[v + half]);
    });
    row[k] = part[0];
  }
  // A lane of one term is +0 + x, which is x but for -0: +0 is added to the result, which has the same bits.
  const __m256 sums = _mm256_add_ps(fold_each(row), _mm256_setzero_ps());
  const __m256 is_nan = _mm256_cmp_ps(sums, sums, _CMP_UNORD_Q);
  _mm256_storeu_ps(out, _mm256_blendv_ps(sums, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), is_nan));
}

template <class Begin>
bool sum_eight_rows(const float* x, const Begin& begin, std::int64_t most, float* out) {
  int count[8], longest = 0;
  for (int k = 0; k < 8; ++k) {
    const std::int64_t n = begin(k + 1) - begin(k);
    count[k] = static_cast<int>(n > max_lanes ? max_lanes + 1 : n);
    longest = std::max(longest, count[k]);
  }
  if (longest > most) return false;
  if (longest <= 8)
    sum_eight_rows_of<1>(x, begin, count, out);
  else if (longest <= 16)
    sum_eight_rows_of<2>(x, begin, count, out);
  else if (longest <= 32)
    sum_eight_rows_of<4>(x, begin, count, out);
  else
    sum_eight_rows_of<8>(x, begin, count, out);
  return true;
}

#else

template <class Begin>
bool sum_eight_rows(const float*, const Begin&, std::int64_t, float*) {
  return false;
}

#endif

template <class Begin>
bool sum_eight_rows(const double*, const Begin&, std::int64_t, double*) {
  return false;
}

}  // namespace repdl::cpu
