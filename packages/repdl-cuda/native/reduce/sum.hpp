// The sums of the contract (sum.md) inside kernels, for the sum itself and for every op that
// has one inside (softmax, norms, losses):
//
//   warp_block_sum(n, order, f)    one block of a sum, f(0) + ... + f(n - 1), by one warp
//   row_sum(n, order, f)           a whole sum, by all threads of a CUDA block
//
// Sums by the whole grid are in grid_sum.hpp. A sum of Pair<T> is two sums of T at once.
//
// Order, for each output on its own: blocks of sum_block; in a block element i goes to
// lane i mod sum_lanes, a chain of adds from +0; lanes fold by halves; blocks join by the
// tree. No result is made canonical here.
#pragma once

#include <algorithm>

#include "base/launch.hpp"
#include "base/thread_tree.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cuda {

constexpr unsigned whole_warp = 0xffffffffu;

// The order of a sum over n elements: `block` is at least 1, also where the contract has one block.
struct SumOrder {
  int lanes;
  std::int64_t block;

  SumOrder(const Contract& contract, std::int64_t n)
      : lanes(static_cast<int>(contract.sum_lanes)),
        block(contract.sum_block ? contract.sum_block : std::max<std::int64_t>(n, 1)) {
    if (blocks(n) > most_in_thread)
      throw std::runtime_error("a sum of " + std::to_string(n) + " elements in blocks of " + std::to_string(block) +
                               " has " + std::to_string(blocks(n)) + " blocks, expected at most " +
                               std::to_string(most_in_thread) + "; use a contract with a larger sum_block");
  }

  // Also the sum of nothing has a block.
  REPDL_HD std::int64_t blocks(std::int64_t n) const { return n == 0 ? 1 : (n + block - 1) / block; }
};

template <class T>
struct Pair {
  T first, second;

  Pair() = default;
  __device__ explicit Pair(T both) : first(both), second(both) {}
  __device__ Pair(T a, T b) : first(a), second(b) {}
  __device__ Pair operator+(const Pair& right) const { return {first + right.first, second + right.second}; }
  __device__ Pair& operator+=(const Pair& right) { return *this = *this + right; }
};

// What the thread `by` lanes further up in the warp has.
template <class T>
__device__ T shuffle_down(T value, int by) {
  return __shfl_down_sync(whole_warp, value, by);
}
template <class T>
__device__ Pair<T> shuffle_down(Pair<T> value, int by) {
  return {shuffle_down(value.first, by), shuffle_down(value.second, by)};
}

// f(0) + ... + f(n - 1) as one block; all threads of a warp call it, thread 0 of it has the result.
template <class T, class F>
__device__ T warp_block_sum(std::int64_t n, const SumOrder& order, F&& f) {
  const int me = threadIdx.x % warp_size;
  T sum = T(0);
  if (order.lanes == 64) {
    T high = T(0);  // lane me + 32
    std::int64_t i = me;
#pragma unroll 8
    for (; i < n - 63 + me; i += 64) {
      sum += f(i);
      high += f(i + 32);
    }
    if (i < n) sum += f(i);
    if (i + 32 < n) high += f(i + 32);
    sum += high;
  } else if (me < order.lanes) {
    for (std::int64_t i = me; i < n; i += order.lanes) sum += f(i);
  }
  for (int half = order.lanes == 64 ? 16 : order.lanes / 2; half > 0; half /= 2) sum += shuffle_down(sum, half);
  return sum;
}

// f(0) + ... + f(n - 1); all threads of a CUDA block of whole warps along x call it, and all
// get the result. It may be called again at once.
template <class T>
struct RowSumMemory {
  T of_warp[32], result;
};
template <class T, class F>
__device__ T row_sum(std::int64_t n, const SumOrder& order, F&& f) {
  auto& memory = shared<RowSumMemory<T>>();
  const int warps = blockDim.x / warp_size, warp = threadIdx.x / warp_size;
  const std::int64_t blocks = order.blocks(n);
  ThreadTree<T> tree;  // thread 0's
  for (std::int64_t first = 0; first < blocks; first += warps) {
    const std::int64_t begin = (first + warp) * order.block;
    if (first + warp < blocks) {
      const T part = warp_block_sum<T>(n - begin < order.block ? n - begin : order.block, order,
                                       [&](std::int64_t i) { return f(begin + i); });
      if (threadIdx.x % warp_size == 0) memory.of_warp[warp] = part;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 0; w < warps && first + w < blocks; ++w) tree.push(memory.of_warp[w]);
      memory.result = tree.result();
    }
    __syncthreads();
  }
  const T result = memory.result;
  __syncthreads();
  return result;
}

}  // namespace repdl::cuda
