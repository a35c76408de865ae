// The order of n keys (random.md), by a bitonic sort (Batcher, AFIPS 1968): which algorithm sorts, the result
// does not show, as no two pairs (key, index) are equal.
//
//   for i < n:  (n), key[i] = 64 bits of number offset + i
//     out = the i in ascending order of (key[i], i)
#include "base/launch.hpp"
#include "repdl/random/draws.hpp"

namespace repdl::cuda {
namespace {

using random::Position;

constexpr int threads = 256;

// What is sorted; places past the n of the draw come last, as their indices do.
struct Pairs {
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

__global__ void __launch_bounds__(threads) fill_keys(Position at, Pairs pairs, std::int64_t n, std::int64_t size) {
  const std::int64_t t = thread_index(), first = 4 * t - static_cast<std::int64_t>(at.offset % 4);
  const std::uint64_t block = at.offset / 4 + static_cast<std::uint64_t>(t);
  const random::Block<std::uint64_t> high = at.words(block, 0), low = at.words(block, 1);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::int64_t i = first + j;
    if (i < 0 || i >= size) continue;
    pairs.key[i] = i < n ? random::wide(high.word[j], low.word[j]) : ~std::uint64_t{0};
    pairs.index[i] = i;
  }
}

// Of two ascending runs the smaller half, then the larger: an element is compared with its mirror image.
__global__ void __launch_bounds__(threads) split_runs(Pairs pairs, std::int64_t half, std::int64_t run) {
  const std::int64_t t = thread_index(), begin = t / run * 2 * run, i = t % run;
  if (t < half) pairs.order(begin + i, begin + 2 * run - 1 - i);
}

// The same of a half, whose elements are compared with those `distance` on.
__global__ void __launch_bounds__(threads) split_half(Pairs pairs, std::int64_t half, std::int64_t distance) {
  const std::int64_t t = thread_index(), a = t / distance * 2 * distance + t % distance;
  if (t < half) pairs.order(a, a + distance);
}

__global__ void __launch_bounds__(threads) copy_indices(Pairs pairs, std::int64_t* out, std::int64_t n) {
  const std::int64_t i = thread_index();
  if (i < n) out[i] = pairs.index[i];
}

void random_permutation(const Tensor&, const Tensor& position, const Tensor& output, const Run& run) {
  const Position at(position);
  const std::int64_t n = output.count();
  if (n == 0) return;
  std::int64_t size = 1;
  while (size < n) size *= 2;
  const Pairs pairs{run.workspace<std::uint64_t>(size), run.workspace<std::int64_t>(size)};
  const Stream stream = stream_of(run);
  launch(run.op, fill_keys, {ceil_div(ceil_div(size + 3, 4), threads)}, threads, 0, stream, at, pairs, n, size);
  const std::int64_t half = size / 2;
  const Grid pairwise{ceil_div(half, threads)};
  for (std::int64_t sorted = 1; sorted < size; sorted *= 2) {
    launch(run.op, split_runs, pairwise, threads, 0, stream, pairs, half, sorted);
    for (std::int64_t distance = sorted / 2; distance > 0; distance /= 2)
      launch(run.op, split_half, pairwise, threads, 0, stream, pairs, half, distance);
  }
  launch(run.op, copy_indices, {ceil_div(n, threads)}, threads, 0, stream, pairs, output.as<std::int64_t>(), n);
}

const AddKernel permutation_kernel = add_kernel<&random_permutation>("random_permutation", DType::float32);

}  // namespace
}  // namespace repdl::cuda
