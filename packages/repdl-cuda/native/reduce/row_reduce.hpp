// Row kernels, a thread block a row: number of threads, the row in shared memory, the maximum, the results.
#pragma once

#include "base/pack.hpp"
#include "reduce/sum.hpp"
#include "repdl/contract/bits.hpp"

namespace repdl::cuda {

// Threads of a CUDA block for a row of n elements: a warp for each block of the sums, up to 8.
inline unsigned row_threads(std::int64_t n, const SumOrder& order) {
  const std::int64_t blocks = order.blocks(n);
  return 32 * (blocks >= 8 ? 8 : blocks >= 4 ? 4 : blocks >= 2 ? 2 : 1);
}

// A row that is read more than once is cached in shared memory, `values` numbers for each of its n elements, where so
// much of it leaves the multiprocessors of every architecture two blocks or more: a longer one is read again.
template <class T>
std::size_t cached_bytes(std::int64_t n, int values) {
  constexpr std::int64_t most = 32 << 10;
  return n <= most / static_cast<std::int64_t>(values * sizeof(T)) ? n * values * sizeof(T) : 0;
}

// Runs kernels.cached or kernels.again, the same kernel of rows, as cached_bytes says.
template <class Kernel>
struct RowKernels {
  Kernel cached, again;
};
template <class T, class Kernel, class... Arguments>
void launch_rows(const RowKernels<Kernel>& kernels, int values, std::int64_t rows, std::int64_t n, unsigned threads,
                 const ExecContext& exec, Arguments... arguments) {
  const std::size_t bytes = cached_bytes<T>(n, values);
  launch(exec.op, bytes != 0 ? kernels.cached : kernels.again, {rows}, threads, bytes, stream_of(exec), arguments...);
}

// cached[i] = x[i], and use(x[i]), for each i < n that is this thread's: by all threads of a CUDA block along x, which
// wait for each other before they read what others cached. Where nothing is cached, `cached` is x.
template <bool caches, class T, class Use>
__device__ void read_row(const T* x, T* cached, std::int64_t n, const Use& use) {
  with_packs<T>(whole_packs(n, x), [&](auto width) {
    constexpr int count = width(), batch = count == 1 ? 8 : 4;
    each_pack<count, batch>(
        n, [&](std::int64_t i) { return load_pack<count>(x + i); },
        [&](std::int64_t i, const Pack<T, count>& pack) {
          if constexpr (caches) store_pack(cached + i, pack);
#pragma unroll
          for (int q = 0; q < count; ++q) use(pack.of[q]);
        });
  });
}
template <class T>
__device__ void cache_row(const T* x, T* cached, std::int64_t n) {
  read_row<true>(x, cached, n, [](T) {});
}

// The largest of a row that is not NaN, -inf if there is none, a zero as +0; the row is cached as read_row does. All
// threads of a CUDA block of whole warps along x call it, and all get the result.
template <class T>
struct RowMax {
  T of_warp[32];
};
template <bool caches, class T>
__device__ T row_max(const T* x, T* cached, std::int64_t n) {
  auto& of_warp = shared<RowMax<T>>().of_warp;
  T best = -exact::infinity();
  read_row<caches>(x, cached, n, [&](T value) { best = value > best ? value : best; });
  for (int half = 16; half > 0; half /= 2) {
    const T other = __shfl_down_sync(full_warp_mask, best, half);
    best = other > best ? other : best;
  }
  if (threadIdx.x % warp_size == 0) of_warp[threadIdx.x / warp_size] = best;
  __syncthreads();
  best = of_warp[0];
  for (unsigned w = 1; w < blockDim.x / warp_size; ++w) best = of_warp[w] > best ? of_warp[w] : best;
  __syncthreads();
  return best + T(0);
}

// y[i + q] = canonical(result(q, load(i, width))) for every i < n and q < width: by packs where `whole`, by all threads
// of a CUDA block along x. All loads of a batch come before its stores: load(i) may read y[i].
template <class T, class Load, class Result>
__device__ void write_row(T* y, std::int64_t n, bool whole, const Load& load, const Result& result) {
  with_packs<T>(whole, [&](auto width) {
    constexpr int count = width(), batch = count == 1 ? 4 : 2;
    each_pack<count, batch>(
        n, [&](std::int64_t i) { return load(i, width); },
        [&](std::int64_t i, const auto& loaded) {
          Pack<T, count> pack;
#pragma unroll
          for (int q = 0; q < count; ++q) pack.of[q] = canonical(result(q, loaded));
          store_pack(y + i, pack);
        });
  });
}

}  // namespace repdl::cuda
