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
  std::uint64_t four[4];
  random::Keys()(at, at.offset / 4 + static_cast<std::uint64_t>(t), four);
  for (int j = 0; j < 4; ++j) {
    const std::int64_t i = first + j;
    if (i < 0 || i >= size) continue;
    pairs.key[i] = i < n ? four[j] : ~std::uint64_t{0};
    pairs.index[i] = i;
  }
}

// One step: ascending runs of `run` elements become those of twice as many, first by comparing an element with
// its mirror image (distance 0), then with the one `distance` on.
__global__ void __launch_bounds__(threads)
    merge_step(Pairs pairs, std::int64_t half, std::int64_t run, std::int64_t distance) {
  const std::int64_t t = thread_index();
  if (t >= half) return;
  if (distance == 0) {
    const std::int64_t begin = t / run * 2 * run, i = t % run;
    pairs.order(begin + i, begin + 2 * run - 1 - i);
  } else {
    const std::int64_t a = t / distance * 2 * distance + t % distance;
    pairs.order(a, a + distance);
  }
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
  for (std::int64_t sorted = 1; sorted < size; sorted *= 2)
    for (std::int64_t distance = 0, next = sorted / 2; distance == 0 || distance >= 1; distance = next, next /= 2) {
      launch(run.op, merge_step, {ceil_div(size / 2, threads)}, threads, 0, stream, pairs, size / 2, sorted, distance);
      if (next == 0) break;
    }
  launch(run.op, copy_indices, {ceil_div(n, threads)}, threads, 0, stream, pairs, output.as<std::int64_t>(), n);
}

const AddKernel permutation_kernel = add_kernel<&random_permutation>("random_permutation", DType::float32);

}  // namespace
}  // namespace repdl::cuda
