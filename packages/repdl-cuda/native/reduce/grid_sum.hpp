// Sums over strided tensors by the whole grid: sum itself, the gradients of weights and biases,
// the statistics of channels.
//
//   for each outer index:  (outer..., reduced...) -> (outer...)
//     finish(outer, sum of element(where (outer, reduced) lies in each tensor)), reduced in row-major order
//
// Two kernels sum single blocks of the contract: a warp a block, or, where outer elements are
// contiguous, a CUDA block for 32 columns. Then the tree joins them, 128 by a warp or 16384 by a CUDA
// block, until one is left: both are powers of two, so each such group is a subtree.
//
// V is T, or TwoSums<T> for two sums at once. Element and Finish are structs that kernels take by
// value: V element(Shape<N>::Offsets), void finish(std::int64_t output, V sum).
#pragma once

#include "base/strides.hpp"
#include "reduce/sum.hpp"

namespace repdl::cuda {

constexpr int grid_sum_threads = 256, grid_sum_warps = grid_sum_threads / 32;
// Kernels of this file ask for two CUDA blocks a multiprocessor: without the number ptxas spills.
constexpr int column_tile = 32, column_rows = 8, column_lanes = 64 / column_rows;
static_assert(column_lanes == items_per_thread);

// Where a sum goes: to finish, or, if it is one of several partial sums of output o, to memory of its own.
template <class V, class Finish>
struct PartialOr {
  Finish finish;
  V* partial;
  std::int64_t count;  // of one output

  __device__ void operator()(std::int64_t output, std::int64_t index, V sum) const {
    if (count == 1)
      finish(output, sum);
    else
      partial[output * count + index] = sum;
  }
};

// The terms of a block, which begins at `begin` of the reduced index. `run`: whether that is one run.
template <bool run, int N, class Element>
struct BlockTerms {
  using Offsets = typename Shape<N>::Offsets;
  const Element& element;
  const Shape<N>& reduced;
  const Offsets from, step;  // of the output; from an element of a run to the next
  const std::int64_t begin;

  __device__ BlockTerms(const Element& of, const Shape<N>& over, const Offsets& output, std::int64_t first)
      : element(of), reduced(over), from(output), step(over.run(1)), begin(first) {}

  // to[q] = element(where first + by[q] of the block lies)
  template <class V>
  __device__ void operator()(std::int64_t first, const int (&by)[items_per_thread], V (&to)[items_per_thread]) const {
    const std::int64_t at = begin + first;
    if (run || by[items_per_thread - 1] < reduced.left_in_run(at)) {
      const Offsets start = from + (run ? step * at : reduced.offsets(at));
#pragma unroll
      for (int q = 0; q < items_per_thread; ++q) to[q] = element(start + step * by[q]);
    } else {
#pragma unroll
      for (int q = 0; q < items_per_thread; ++q) to[q] = element(from + reduced.offsets(at + by[q]));
    }
  }
};

// Block b of output o: a warp for each.
template <bool run, class V, int N, class Element, class Finish>
__global__ void __launch_bounds__(grid_sum_threads, 2)
    sum_rows(Element element, PartialOr<V, Finish> to, Shape<N> outer, Shape<N> reduced, SumOrder order) {
  const std::int64_t n = reduced.count;
  const std::int64_t task = static_cast<std::int64_t>(blockIdx.x) * grid_sum_warps + threadIdx.x / warp_size;
  if (task >= outer.count * to.count) return;
  const std::int64_t output = task / to.count, index = task % to.count, begin = index * order.block;
  const std::int64_t count = n - begin < order.block ? n - begin : order.block;
  const BlockTerms<run, N, Element> terms(element, reduced, outer.offsets(output), begin);
  const V sum = warp_block_sum<V>(count, order, terms);
  if (threadIdx.x % warp_size == 0) to(output, index, sum);
}

// f(0) + ... + f(n - 1) as one block, for each of 32 columns; thread (c, r) has terms of column c, if `inside`, and
// the lanes r, r + 8, ... of it. All threads call it; those with r = 0 have the result. Before it is called again
// they have to meet.
template <class V>
struct ColumnLanes {
  V lane[64][column_tile + 1];
};
template <class V, class Terms>
__device__ V column_block_sum(std::int64_t n, bool inside, const SumOrder& order, const Terms& terms) {
  auto& lanes = shared<ColumnLanes<V>>().lane;
  const int c = threadIdx.x, r = threadIdx.y;
  V sum[column_lanes];
#pragma unroll
  for (int q = 0; q < column_lanes; ++q) sum[q] = V(0);
  if (inside) {
    for (std::int64_t i = 0; r < order.lanes && i + r < n; i += order.lanes) {
      if (i > 0) REPDL_ROUND("sum: rows of a lane of columns");
      const std::int64_t left = (n - i < order.lanes ? n - i : order.lanes) - r;
      add_batch<V>(terms, i + r, column_rows, left, [&](int q, const V& term) { sum[q] += term; });
    }
  }
#pragma unroll
  for (int q = 0; q < column_lanes; ++q) lanes[r + q * column_rows][c] = sum[q];
  for (int half = order.lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    for (int lane = r; lane < half; lane += column_rows) lanes[lane][c] += lanes[lane + half][c];
  }
  return r == 0 ? lanes[0][c] : V(0);  // which the others would read while it is written
}

// The same for 32 contiguous outputs.
template <bool run, class V, int N, class Element, class Finish>
__global__ void __launch_bounds__(column_tile* column_rows, 2)
    sum_columns(Element element, PartialOr<V, Finish> to, Shape<N> outer, Shape<N> reduced, SumOrder order) {
  const std::int64_t n = reduced.count, width = outer.inner_size();
  const std::int64_t tiles = (width + column_tile - 1) / column_tile;
  const std::int64_t index = blockIdx.x % to.count, tile = blockIdx.x / to.count;
  const std::int64_t column = tile % tiles * column_tile + threadIdx.x, output = tile / tiles * width + column;
  const std::int64_t begin = index * order.block;
  const std::int64_t count = n - begin < order.block ? n - begin : order.block;
  const bool inside = column < width;
  const BlockTerms<run, N, Element> terms(element, reduced, outer.offsets(inside ? output : 0), begin);
  const V sum = column_block_sum<V>(count, inside, order, terms);
  if (inside && threadIdx.y == 0) to(output, index, sum);
}

// Values of a group that a warp joins, each lane neighbours; a CUDA block joins as many groups as a group has values.
constexpr int join_each = 4, join_group = join_each * 32, join_rounds = 4, join_threads = join_group / join_rounds * 32;

// A group of `count` values, 1 to 128: all threads of a warp load it, then they join it, and lane 0 has the result.
template <class V>
class JoinGroup {
 public:
  __device__ void load(const V* from, std::int64_t count) {
    left_ = static_cast<int>(count) - lane() * join_each;
#pragma unroll
    for (int q = 0; q < join_each; ++q) value_[q] = from[q < left_ ? lane() * join_each + q : 0];
  }
  __device__ V join() const {
    V value[join_each];
#pragma unroll
    for (int q = 0; q < join_each; ++q) value[q] = value_[q];
#pragma unroll
    for (int by = 1; by < join_each; by *= 2)
#pragma unroll
      for (int q = 0; q < join_each; q += 2 * by)
        if (q + by < left_) value[q] = value[q] + value[q + by];
    V sum = value[0];
    for (int by = 1; by < 32; by *= 2) {
      const V right = shuffle_down(sum, by);
      if (by * join_each < left_) sum = sum + right;
    }
    return sum;
  }

 private:
  __device__ static int lane() { return threadIdx.x % warp_size; }

  V value_[join_each];
  int left_;  // values of the group from this lane's first on
};

__device__ inline std::int64_t size_of_group(std::int64_t left) { return left < join_group ? left : join_group; }

// Output o = the tree over partial[o, ...], at most 128 of them: by a warp.
template <class V, class Finish>
__global__ void __launch_bounds__(grid_sum_threads, 2)
    join_group_of_output(const V* partial, PartialOr<V, Finish> to, std::int64_t outputs, std::int64_t count) {
  const std::int64_t output = thread_index() / warp_size;
  if (output >= outputs) return;
  JoinGroup<V> group;
  group.load(partial + output * count, count);
  const V sum = group.join();
  if (threadIdx.x % warp_size == 0) to(output, 0, sum);
}

// Partial sum b of output o = the tree over partial[o, 16384 b ...], at most 16384 of them: by a CUDA block.
constexpr int join_block = join_group * join_group;
template <class V>
struct JoinMemory {
  V of_group[join_group];
};
template <class V, class Finish>
__global__ void __launch_bounds__(join_threads)
    join_blocks(const V* partial, PartialOr<V, Finish> to, std::int64_t count) {
  auto& of_group = shared<JoinMemory<V>>().of_group;
  const std::int64_t output = blockIdx.x / to.count, index = blockIdx.x % to.count, first = index * join_block;
  const std::int64_t n = count - first < join_block ? count - first : join_block;
  const V* from = partial + output * count + first;
  const int warp = threadIdx.x / warp_size, warps = join_threads / warp_size;
  JoinGroup<V> group[join_rounds];
#pragma unroll
  for (int r = 0; r < join_rounds; ++r) {
    const int at = (r * warps + warp) * join_group;
    if (at < n) group[r].load(from + at, size_of_group(n - at));
  }
#pragma unroll
  for (int r = 0; r < join_rounds; ++r) {
    const int at = (r * warps + warp) * join_group;
    if (at >= n) break;
    const V sum = group[r].join();
    if (threadIdx.x % warp_size == 0) of_group[r * warps + warp] = sum;
  }
  __syncthreads();
  if (warp > 0) return;
  group[0].load(of_group, (n + join_group - 1) / join_group);
  const V sum = group[0].join();
  if (threadIdx.x == 0) to(output, index, sum);
}

// How many are left of `count` partial sums after a join.
inline std::int64_t joined(std::int64_t count) { return count <= join_group ? 1 : ceil_div(count, join_block); }

// The number of V for partial results: one for each block of each sum, if there are several, and those that they are
// joined to.
inline std::int64_t grid_sum_work(std::int64_t outer, std::int64_t blocks) {
  std::int64_t total = 0;
  for (std::int64_t count = blocks; count > 1; count = joined(count)) total += outer * count;
  return total;
}

template <class V, int N, class Element, class Finish>
void grid_sum(const Element& element, const Finish& finish, const Shape<N>& outer, const Shape<N>& reduced,
              const Contract& contract, const ExecContext& exec) {
  const char* op = exec.op;
  const Stream stream = stream_of(exec);
  const SumOrder order(contract, reduced.count);
  const std::int64_t blocks = order.blocks(reduced.count);
  PartialOr<V, Finish> to{finish, exec.workspace<V>(grid_sum_work(outer.count, blocks)), blocks};
  const bool columns = outer.inner_size() >= column_tile / 2 && outer.inner(0) == 1 && reduced.inner(0) != 1;
  if (columns) {
    const std::int64_t tiles = ceil_div(outer.inner_size(), column_tile) * (outer.count / outer.inner_size());
    const auto kernel =
        reduced.flat() ? sum_columns<true, V, N, Element, Finish> : sum_columns<false, V, N, Element, Finish>;
    launch(op, kernel, {tiles * to.count}, dim3(column_tile, column_rows), 0, stream, element, to, outer, reduced,
           order);
  } else {
    const auto kernel = reduced.flat() ? sum_rows<true, V, N, Element, Finish> : sum_rows<false, V, N, Element, Finish>;
    launch(op, kernel, {ceil_div(outer.count * to.count, grid_sum_warps)}, grid_sum_threads, 0, stream, element, to,
           outer, reduced, order);
  }
  while (to.count > 1) {
    const V* from = to.partial;
    const std::int64_t count = to.count;
    to = {finish, to.partial + outer.count * count, joined(count)};
    if (to.count > 1) REPDL_ROUND("sum: joins of joins");
    if (count <= join_group)
      launch(op, join_group_of_output<V, Finish>, {ceil_div(outer.count, grid_sum_warps)}, grid_sum_threads, 0, stream,
             from, to, outer.count, count);
    else
      launch(op, join_blocks<V, Finish>, {outer.count * to.count}, join_threads, 0, stream, from, to, count);
  }
}

}  // namespace repdl::cuda
