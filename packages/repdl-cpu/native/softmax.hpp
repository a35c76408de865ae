// The exponentials of a row, as softmax and the cross entropy have them (softmax.md, 1).
#pragma once

#include "largest.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/exact/exp.hpp"
#include "sum.hpp"

namespace repdl::cpu {

struct RowExp {
  float max, sum;
};

// e[i] = exp(x[i] - max) for i < n, and their sum.
inline RowExp exp_row(const float* x, float* e, std::int64_t n, const Contract& contract) {
  const float m = largest(x, n) + 0.0f;  // of equal zeros, +0
  for (std::int64_t i = 0; i < n; ++i) e[i] = exact::exp(x[i] - m);
  return {m, sum_row(e, n, 1, contract)};
}

// Rows worth a thread.
inline std::int64_t row_grain(std::int64_t n) { return std::max<std::int64_t>(1, (1 << 12) / (n + 1)); }

}  // namespace repdl::cpu
