// The exponentials of a row, as softmax and the cross entropy have them (softmax.md, 1).
#pragma once

#include "exact/exp_vec.hpp"
#include "reduce/row_max.hpp"
#include "base/prefetch.hpp"
#include "reduce/row_sum.hpp"
#include "simd/row_loop.hpp"
#include "exact/double_vec.hpp"
#include "simd/row_loop_double.hpp"

namespace repdl::cpu {

template <class T>
struct RowExp {
  T max, sum;
};

// e[i] = exp(x[i] - max) for i < n, each given to keep(i, part, e) once, and their sum.
template <class Keep>
RowExp<float> exp_row(const float* x, std::int64_t n, const Contract& contract, const Keep& keep) {
  const float m = row_max(x, n) + 0.0f;  // of equal zeros, +0
  const float sum = sum_each(n, contract, [=](std::int64_t i, auto part) {
    const Vec e = exp(part.load(x + i) - Vec::set1(m));
    keep(i, part, e);
    return e;
  });
  return {m, sum};
}

// The same of doubles.
template <class Keep>
RowExp<double> exp_row(const double* x, std::int64_t n, const Contract& contract, const Keep& keep) {
  using exact::exp;
  const double m = row_max(x, n) + 0.0;
  const double sum = sum_filled<double>(n, contract, [=](std::int64_t start, std::int64_t count, double* dst) {
    row_loop_double(count, [=](std::int64_t i, auto part) {
      const auto e = exp(part.load(x + start + i) - part.set1(m));
      keep(start + i, part, e);
      part.store(dst + i, e);
    });
  });
  return {m, sum};
}

// Rows worth a thread.
inline std::int64_t row_grain(std::int64_t n) { return std::max<std::int64_t>(1, (1 << 12) / (n + 1)); }

}  // namespace repdl::cpu
