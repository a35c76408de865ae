// The sum of the rows of equal index (index_sum.md, grid_sum.hpp), and the selection of rows.
//
//   for k < size:  (n, width), (n) -> (size, width)
//     out[k] = sum of values[i] over the i with index[i] = k, i ascending
//   for i < n:  (rows, width), (n) -> (n, width)
//     out[i] = weight[index[i]], bits that are moved
//
// Pairs (index[i], i) are sorted: then the terms of a row are next to each other, i ascending. A CUDA block has
// 32 columns of a row, and finds its terms by bisection.
#include "base/expect.hpp"
#include "base/sort_pairs.hpp"
#include "reduce/grid_sum.hpp"

namespace repdl::cuda {
inline namespace index_sum_cu {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads)
    fill_pairs(const std::int64_t* index, KeyIndexPairs pairs, std::int64_t n, std::int64_t size, std::int64_t rows) {
  const std::int64_t i = thread_index();
  if (i >= size) return;
  expect(i >= n || (index[i] >= 0 && index[i] < rows), "an index is of no row");
  pairs.key[i] = i < n ? static_cast<std::uint64_t>(index[i]) : ~std::uint64_t{0};
  pairs.index[i] = i;
}

// How many of n sorted keys are less than `key`.
__device__ std::int64_t keys_below(const std::uint64_t* keys, std::int64_t n, std::uint64_t key) {
  std::int64_t low = 0, high = n;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (keys[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

template <class T>
__global__ void __launch_bounds__(column_tile* column_rows, 2)
    sum_terms(const T* x, KeyIndexPairs pairs, std::int64_t n, T* y, std::int64_t width, SumOrder order) {
  const std::int64_t tiles = (width + column_tile - 1) / column_tile, k = blockIdx.x / tiles;
  const std::int64_t column = blockIdx.x % tiles * column_tile + threadIdx.x;
  const std::int64_t first = keys_below(pairs.key, n, static_cast<std::uint64_t>(k));
  const std::int64_t count = keys_below(pairs.key, n, static_cast<std::uint64_t>(k) + 1) - first;
  const bool inside = column < width;
  ThreadTree<T> tree;  // of the threads that have a result
  for (std::int64_t begin = 0; begin < count; begin += order.block) {
    if (begin > 0) REPDL_ROUND("index_sum: blocks of a row");
    const std::int64_t* place = pairs.index + first + begin;
    const T sum = column_block_sum<T>(count - begin < order.block ? count - begin : order.block, inside, order,
                                      one_by_one([=](std::int64_t i) { return x[place[i] * width + column]; }));
    if (threadIdx.y == 0) tree.push(sum);
    __syncthreads();
  }
  if (inside && threadIdx.y == 0) y[k * width + column] = canonical(tree.result());
}

template <class T>
void index_sum(const Tensor& values, const Tensor& index, std::int64_t, const Contract& contract, const Tensor& output,
               const ExecContext& exec) {
  const std::int64_t n = index.count(), width = output.size[1], size = sorted_size(n);
  if (output.count() == 0) return;
  const KeyIndexPairs pairs = pairs_for(size, exec);
  launch(exec.op, fill_pairs, {ceil_div(size, threads)}, threads, 0, stream_of(exec), index.as<std::int64_t>(), pairs,
         n, size, output.size[0]);
  sort_pairs(pairs, size, exec);
  launch(exec.op, sum_terms<T>, {ceil_div(width, column_tile) * output.size[0]}, dim3(column_tile, column_rows), 0,
         stream_of(exec), values.as<T>(), pairs, n, output.as<T>(), width, SumOrder(contract, n));
}

template <class Bits>
__global__ void __launch_bounds__(threads) copy_rows(const Bits* x, const std::int64_t* index, Bits* y,
                                                     std::int64_t rows, std::int64_t width, std::int64_t count) {
  const std::int64_t i = thread_index();
  if (i >= count) return;
  const std::int64_t row = index[i / width];
  expect(row >= 0 && row < rows, "an index is of no row");
  y[i] = x[row * width + i % width];
}

template <class Bits>
void copy(const Tensor& weight, const Tensor& index, const Tensor& output, const ExecContext& exec) {
  launch(exec.op, copy_rows<Bits>, {ceil_div(output.count(), threads)}, threads, 0, stream_of(exec), weight.as<Bits>(),
         index.as<std::int64_t>(), output.as<Bits>(), weight.size[0], weight.size[1], output.count());
}

void embedding(const Tensor& weight, const Tensor& index, std::int64_t, bool, const Contract&, const Tensor& output,
               const ExecContext& exec) {
  if (weight.dtype == DType::float64) return copy<std::uint64_t>(weight, index, output, exec);
  if (weight.dtype == DType::float32) return copy<std::uint32_t>(weight, index, output, exec);
  copy<std::uint16_t>(weight, index, output, exec);
}

const AddKernel index_sum_kernels = add_kernels<&index_sum<float>, &index_sum<double>>("index_sum", Layout::rows);
const AddKernel embedding_kernels = add_kernels<&embedding, &embedding>("embedding", Layout::rows);

}  // namespace index_sum_cu
}  // namespace repdl::cuda
