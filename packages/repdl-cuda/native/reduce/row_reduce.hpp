// Rows of which each is a CUDA block's: how many threads, and the maximum.
#pragma once

#include "base/launch.hpp"
#include "repdl/exact/bits.hpp"
#include "reduce/sum.hpp"

namespace repdl::cuda {

// Threads of a CUDA block for a row of n elements: a warp for each block of the sums, up to 8.
inline unsigned row_threads(std::int64_t n, const SumOrder& order) {
  const std::int64_t blocks = order.blocks(n);
  return 32 * (blocks >= 8 ? 8 : blocks >= 4 ? 4 : blocks >= 2 ? 2 : 1);
}

// The largest of x[0], ..., x[n - 1] that is not NaN, -inf if there is none, a zero as +0. All
// threads of a CUDA block of whole warps along x call it, and all get the result.
struct RowMax {
  float of_warp[32];
};
__device__ inline float row_max(const float* x, std::int64_t n) {
  auto& of_warp = shared<RowMax>().of_warp;
  float best = -exact::infinity();
  const std::int64_t stride = blockDim.x;
#pragma unroll 1
  for (std::int64_t first = threadIdx.x; first < n; first += batch_size * stride) {
    float batch[batch_size];
#pragma unroll
    for (int q = 0; q < batch_size; ++q) batch[q] = x[first + q * stride < n ? first + q * stride : first];
#pragma unroll
    for (int q = 0; q < batch_size; ++q) best = batch[q] > best ? batch[q] : best;
  }
  for (int half = 16; half > 0; half /= 2) {
    const float other = __shfl_down_sync(whole_warp, best, half);
    best = other > best ? other : best;
  }
  if (threadIdx.x % warp_size == 0) of_warp[threadIdx.x / warp_size] = best;
  __syncthreads();
  best = of_warp[0];
  for (unsigned w = 1; w < blockDim.x / warp_size; ++w) best = of_warp[w] > best ? of_warp[w] : best;
  __syncthreads();
  return best + 0.0f;
}

// y[i] = canonical(result(load(i))) for every i < n, by all threads of a CUDA block along x. All loads of a batch come
// before its stores, which may be to the same memory for all that a compiler knows: load(i) may read y[i].
template <class T, class Load, class Result>
__device__ void write_row(T* y, std::int64_t n, const Load& load, const Result& result) {
  constexpr int each = 4;
  const std::int64_t stride = blockDim.x;
#pragma unroll 1
  for (std::int64_t first = threadIdx.x; first < n; first += each * stride) {
    decltype(load(first)) loaded[each];
#pragma unroll
    for (int j = 0; j < each; ++j) loaded[j] = load(first + j * stride < n ? first + j * stride : first);
#pragma unroll
    for (int j = 0; j < each; ++j)
      if (j == 0 || first + j * stride < n) y[first + j * stride] = canonical(result(loaded[j]));
  }
}

}  // namespace repdl::cuda
