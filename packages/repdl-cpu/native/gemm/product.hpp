// A product of any sizes and strides, by whichever kernel is fastest (matmul.cpp).
#pragma once

#include "gemm/gemm.hpp"

namespace repdl::cpu {

// C[i, j] = dot(A[i, :], B[:, j]) plus a bias a column, all of it by the calling thread.
void product(std::int64_t rows, std::int64_t columns, std::int64_t K, std::int64_t chunk, const StridedPacker& a,
             const StridedPacker& b, const Output& out);

}  // namespace repdl::cpu
