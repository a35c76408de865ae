// The order of n keys (random.md).
//
//   for i < n:  (n), key[i] = 64 bits of number offset + i
//     out = the i in ascending order of (key[i], i)
#include "base/sort_pairs.hpp"
#include "repdl/random/draws.hpp"

namespace repdl::cuda {
inline namespace permutation_cu {

using random::Position;

constexpr int threads = 256;

__global__ void __launch_bounds__(threads)
    fill_keys(Position at, KeyIndexPairs pairs, std::int64_t n, std::int64_t size) {
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

__global__ void __launch_bounds__(threads) copy_indices(KeyIndexPairs pairs, std::int64_t* out, std::int64_t n) {
  const std::int64_t i = thread_index();
  if (i < n) out[i] = pairs.index[i];
}

void random_permutation(const Tensor&, const Tensor& position, const Tensor& output, const ExecContext& exec) {
  const Position at(position);
  const std::int64_t n = output.count();
  if (n == 0) return;
  const std::int64_t size = sorted_size(n);
  const KeyIndexPairs pairs = pairs_for(size, exec);
  const Stream stream = stream_of(exec);
  launch(exec.op, fill_keys, {ceil_div(ceil_div(size + 3, 4), threads)}, threads, 0, stream, at, pairs, n, size);
  sort_pairs(pairs, size, exec);
  launch(exec.op, copy_indices, {ceil_div(n, threads)}, threads, 0, stream, pairs, output.as<std::int64_t>(), n);
}

const AddKernel permutation_kernel = add_kernel<&random_permutation>("random_permutation", DType::float32);

}  // namespace permutation_cu
}  // namespace repdl::cuda
