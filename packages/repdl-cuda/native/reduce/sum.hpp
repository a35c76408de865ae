// The sums of the contract (sum.md) inside kernels, for the sum itself and for every op that
// has one inside (softmax, norms, losses):
//
//   warp_block_sum(n, order, terms)   one block of a sum, by one warp
//   row_sum(n, order, f)           a whole sum, by all threads of a CUDA block
//
// Sums by the whole grid are in grid_sum.hpp. A sum of TwoSums<T> is two sums of T at once.
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

constexpr unsigned full_warp_mask = 0xffffffffu;

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
struct TwoSums {
  T first, second;

  TwoSums() = default;
  __device__ explicit TwoSums(T both) : first(both), second(both) {}
  __device__ TwoSums(T a, T b) : first(a), second(b) {}
  __device__ TwoSums operator+(const TwoSums& right) const { return {first + right.first, second + right.second}; }
  __device__ TwoSums& operator+=(const TwoSums& right) { return *this = *this + right; }
};

// What the thread `by` lanes further up in the warp has.
template <class T>
__device__ T shuffle_down(T value, int by) {
  return __shfl_down_sync(full_warp_mask, value, by);
}
template <class T>
__device__ TwoSums<T> shuffle_down(TwoSums<T> value, int by) {
  return {shuffle_down(value.first, by), shuffle_down(value.second, by)};
}

// How many terms a thread has on their way before it adds them.
constexpr int items_per_thread = 8;

// Terms of which each is found by itself: terms(first, by, to) is to[q] = f(first + by[q]).
template <class F>
struct OneByOne {
  F f;

  template <class T>
  __device__ void operator()(std::int64_t first, const int (&by)[items_per_thread], T (&to)[items_per_thread]) const {
#pragma unroll
    for (int q = 0; q < items_per_thread; ++q) to[q] = f(first + by[q]);
  }
};
template <class F>
__device__ OneByOne<F> one_by_one(F f) {
  return {f};
}

// add(q, f(first + q * step)) for each q with q * step < left, at least one. Slots past the end reload the last term,
// so that no load branches.
template <class T, class Terms, class Add>
__device__ void add_batch(const Terms& terms, std::int64_t first, int step, std::int64_t left, const Add& add) {
  int by[items_per_thread] = {0};
  T batch[items_per_thread];
  const bool full = (items_per_thread - 1) * step < left;
  if (full) {
#pragma unroll
    for (int q = 1; q < items_per_thread; ++q) by[q] = q * step;
    terms(first, by, batch);
#pragma unroll
    for (int q = 0; q < items_per_thread; ++q) add(q, batch[q]);
  } else {
#pragma unroll
    for (int q = 1; q < items_per_thread; ++q) by[q] = q * step < left ? q * step : by[q - 1];
    terms(first, by, batch);
#pragma unroll
    for (int q = 0; q < items_per_thread; ++q)
      if (q * step < left) add(q, batch[q]);
  }
}

// f(0) + ... + f(n - 1) as one block; all threads of a warp call it, thread 0 of it has the result.
template <class T, class Terms>
__device__ T warp_block_sum(std::int64_t n, const SumOrder& order, const Terms& terms) {
  const int me = threadIdx.x % warp_size;
  T sum = T(0);
  if (order.lanes == 64) {
    T lane[2] = {T(0), T(0)};  // me and me + 32
    for (std::int64_t i = me; i < n; i += items_per_thread * warp_size) {
      if (i >= items_per_thread * warp_size) REPDL_ROUND("sum: batches of a lane");
      add_batch<T>(terms, i, warp_size, n - i, [&](int q, const T& term) { lane[q % 2] += term; });
    }
    sum = lane[0] + lane[1];
  } else if (me < order.lanes) {
    for (std::int64_t i = me; i < n; i += items_per_thread * order.lanes) {
      if (i >= items_per_thread * order.lanes) REPDL_ROUND("sum: batches of one of other lanes");
      add_batch<T>(terms, i, order.lanes, n - i, [&](int, const T& term) { sum += term; });
    }
  }
  for (int half = order.lanes == 64 ? 16 : order.lanes / 2; half > 0; half /= 2) sum += shuffle_down(sum, half);
  return sum;
}

// f(0) + ... + f(n - 1); all threads of a CUDA block of whole warps along x call it, and all
// get the result. It may be called again at once. The f of an element may be asked for twice.
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
    if (first > 0) REPDL_ROUND("sum: blocks of a warp");
    const std::int64_t begin = (first + warp) * order.block;
    if (first + warp < blocks) {
      const T part = warp_block_sum<T>(n - begin < order.block ? n - begin : order.block, order,
                                       one_by_one([&](std::int64_t i) { return f(begin + i); }));
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
