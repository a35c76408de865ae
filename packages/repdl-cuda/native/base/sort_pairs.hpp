// Pairs of a key and an index in ascending order, by a bitonic sort (Batcher, AFIPS 1968): which algorithm sorts,
// the result does not show, as no two pairs (key, index) are equal.
#pragma once

#include "base/launch.hpp"

namespace repdl::cuda {

// What is sorted; places past the n that are wanted come last, as their indices do.
struct KeyIndexPairs {
  std::uint64_t* key;
  std::int64_t* index;

  __device__ void order(std::int64_t a, std::int64_t b) const {
    const std::uint64_t ka = key[a], kb = key[b];
    const std::int64_t ia = index[a], ib = index[b];
    if (ka < kb || (ka == kb && ia < ib)) return;
    key[a] = kb, key[b] = ka;
    index[a] = ib, index[b] = ia;
  }
};

// Of two ascending runs the smaller half, then the larger: an element is compared with its mirror image.
template <int threads>
__global__ void __launch_bounds__(threads) split_runs(KeyIndexPairs pairs, std::int64_t half, std::int64_t run) {
  const std::int64_t t = thread_index(), begin = t / run * 2 * run, i = t % run;
  if (t < half) pairs.order(begin + i, begin + 2 * run - 1 - i);
}

// The same of a half, whose elements are compared with those `distance` on.
template <int threads>
__global__ void __launch_bounds__(threads) split_half(KeyIndexPairs pairs, std::int64_t half, std::int64_t distance) {
  const std::int64_t t = thread_index(), a = t / distance * 2 * distance + t % distance;
  if (t < half) pairs.order(a, a + distance);
}

// How many pairs are sorted where n are wanted: a power of two.
inline std::int64_t sorted_size(std::int64_t n) {
  std::int64_t size = 1;
  while (size < n) size *= 2;
  return size;
}

inline KeyIndexPairs pairs_for(std::int64_t size, const ExecContext& exec) {
  return {exec.workspace<std::uint64_t>(size), exec.workspace<std::int64_t>(size)};
}

// In ascending order of (key, index).
inline void sort_pairs(const KeyIndexPairs& pairs, std::int64_t size, const ExecContext& exec) {
  constexpr int threads = 256;
  const Stream stream = stream_of(exec);
  const std::int64_t half = size / 2;
  const Grid pairwise{ceil_div(half, threads)};
  for (std::int64_t sorted = 1; sorted < size; sorted *= 2) {
    launch(exec.op, split_runs<threads>, pairwise, threads, 0, stream, pairs, half, sorted);
    for (std::int64_t distance = sorted / 2; distance > 0; distance /= 2)
      launch(exec.op, split_half<threads>, pairwise, threads, 0, stream, pairs, half, distance);
  }
}

}  // namespace repdl::cuda
