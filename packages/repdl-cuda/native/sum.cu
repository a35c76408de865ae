// out[kept] = the contract's sum over the reduced index (sum.md, sum.hpp).
//
//   for each kept index:  (kept..., reduced...) -> (kept...)
//     out[kept] = sum of in[kept, reduced], reduced in row-major order
//
// Two kernels sum single blocks of the contract: a warp a block, or, where kept elements lie
// side by side, a CUDA block for 32 columns. Then the tree joins 32 blocks a thread, until
// one is left: 32 is a power of two, so each such group is a subtree.
#include "launch.hpp"
#include "ops.hpp"
#include "strides.hpp"
#include "sum.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256, warps = threads / 32, join_width = 32;
constexpr int columns = 32, rows = 8, lanes_each = 64 / rows;

// out[o, b] = block b of output o: a warp for each.
template <class T>
__global__ void __launch_bounds__(threads)
    sum_rows(const T* x, T* out, Shape<1> kept, Shape<1> reduced, SumOrder order) {
  const std::int64_t n = reduced.count, blocks = order.blocks(n);
  const std::int64_t task = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warpSize;
  if (task >= kept.count * blocks) return;
  const std::int64_t begin = task % blocks * order.block;
  const std::int64_t count = n - begin < order.block ? n - begin : order.block;
  const T* from = x + kept.offsets(task / blocks).at[0];
  T sum;
  if (reduced.flat()) {
    const std::int64_t stride = reduced.inner(0);
    from += begin * stride;
    sum = warp_block_sum<T>(count, order, [=](std::int64_t i) { return from[i * stride]; });
  } else {
    sum = warp_block_sum<T>(count, order, [&](std::int64_t i) { return from[reduced.offsets(begin + i).at[0]]; });
  }
  if (threadIdx.x % warpSize == 0) out[task] = canonical(sum);
}

// The same for 32 outputs side by side: thread (c, r) has the lanes r, r + 8, ... of column c.
template <class T>
struct ColumnLanes {
  T lane[64][columns + 1];
};
template <class T>
__global__ void __launch_bounds__(columns* rows)
    sum_columns(const T* x, T* out, Shape<1> kept, Shape<1> reduced, SumOrder order) {
  auto& lanes = shared<ColumnLanes<T>>().lane;
  const std::int64_t n = reduced.count, blocks = order.blocks(n), width = kept.inner_size();
  const std::int64_t tiles = (width + columns - 1) / columns;
  const std::int64_t block = blockIdx.x % blocks, tile = blockIdx.x / blocks;
  const std::int64_t column = tile % tiles * columns + threadIdx.x, output = tile / tiles * width + column;
  const std::int64_t begin = block * order.block;
  const std::int64_t count = n - begin < order.block ? n - begin : order.block;
  const int c = threadIdx.x, r = threadIdx.y;
  const bool inside = column < width;
  T sum[lanes_each] = {};
  if (inside) {
    const T* from = x + kept.offsets(output).at[0];
    for (std::int64_t i = 0; i < count; i += order.lanes) {
#pragma unroll
      for (int q = 0; q < lanes_each; ++q) {
        const int lane = r + q * rows;
        if (lane < order.lanes && i + lane < count) sum[q] += from[reduced.offsets(begin + i + lane).at[0]];
      }
    }
  }
#pragma unroll
  for (int q = 0; q < lanes_each; ++q) lanes[r + q * rows][c] = sum[q];
  for (int half = order.lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    for (int lane = r; lane < half; lane += rows) lanes[lane][c] += lanes[lane + half][c];
  }
  if (inside && r == 0) out[output * blocks + block] = canonical(lanes[0][c]);
}

// out[o, g] = the tree over parts[o, 32 g ... ], at most 32 of them.
template <class T>
__global__ void __launch_bounds__(threads)
    join(const T* parts, T* out, std::int64_t outputs, std::int64_t count, std::int64_t groups) {
  const std::int64_t task = thread_index();
  if (task >= outputs * groups) return;
  const std::int64_t first = task % groups * join_width;
  const T* from = parts + task / groups * count + first;
  Tree<T> tree;
  for (std::int64_t i = 0; i < join_width && first + i < count; ++i) tree.push(from[i]);
  out[task] = canonical(tree.result());
}

}  // namespace

std::int64_t sum_work(std::int64_t kept, std::int64_t reduced, std::int64_t block) {
  std::int64_t total = 0;
  for (std::int64_t parts = SumOrder(1, block, reduced).blocks(reduced); parts > 1; parts = ceil_div(parts, join_width))
    total += kept * parts;
  return total;
}

template <class T>
void sum(Address x, Address y, Address work, const Sizes& kept_size, const Sizes& kept_stride,
         const Sizes& reduced_size, const Sizes& reduced_stride, std::int64_t lanes, std::int64_t block,
         const Stream& stream) {
  const Shape<1> kept("sum", kept_size, {kept_stride}), reduced("sum", reduced_size, {reduced_stride});
  const SumOrder order(lanes, block, reduced.count);
  std::int64_t parts = order.blocks(reduced.count);
  T* to = out<T>(parts == 1 ? y : work);
  if (kept.inner_size() >= columns / 2 && kept.inner(0) == 1 && reduced.inner(0) != 1) {
    const std::int64_t tiles = ceil_div(kept.inner_size(), columns) * (kept.count / kept.inner_size());
    launch("sum", sum_columns<T>, {tiles * parts}, dim3(columns, rows), 0, stream, in<T>(x), to, kept, reduced, order);
  } else {
    launch("sum", sum_rows<T>, {ceil_div(kept.count * parts, warps)}, threads, 0, stream, in<T>(x), to, kept, reduced,
           order);
  }
  while (parts > 1) {
    const std::int64_t groups = ceil_div(parts, join_width);
    const T* from = to;
    to = groups == 1 ? out<T>(y) : to + kept.count * parts;
    launch("sum", join<T>, {ceil_div(kept.count * groups, threads)}, threads, 0, stream, from, to, kept.count, parts,
           groups);
    parts = groups;
  }
}

template void sum<float>(Address, Address, Address, const Sizes&, const Sizes&, const Sizes&, const Sizes&,
                         std::int64_t, std::int64_t, const Stream&);
template void sum<double>(Address, Address, Address, const Sizes&, const Sizes&, const Sizes&, const Sizes&,
                          std::int64_t, std::int64_t, const Stream&);

}  // namespace repdl::cuda
