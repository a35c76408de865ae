// The maximum of a row: comparisons are exact, so lanes may take them in any order.
#pragma once

#include <cstdint>
#include <limits>

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

inline bool has_nan(const float* x, std::int64_t n) {
  int found = 0;
  for (std::int64_t i = 0; i < n; ++i) found |= x[i] != x[i];
  return found != 0;
}

}  // namespace repdl::cpu
