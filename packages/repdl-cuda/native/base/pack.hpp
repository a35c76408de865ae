// Packs of elements that lie side by side: 16 bytes, which one instruction loads or stores.
#pragma once

#include "base/launch.hpp"
#include "repdl/host_device.hpp"

namespace repdl::cuda {

template <class T, int count>
struct alignas(count * sizeof(T)) Pack {
  T of[count];
};

// How many elements make 16 bytes.
template <class T>
constexpr int whole_pack = static_cast<int>(16 / sizeof(T));

// Whether packs of T from x[0] on are at their alignment; also where x is null.
template <class T, int count = whole_pack<T>>
REPDL_HD bool packed(const T* x) {
  return reinterpret_cast<std::uintptr_t>(x) % sizeof(Pack<T, count>) == 0;
}

// Whether rows of n elements, of which these are one each, are made of whole packs.
template <class T, class... More>
__device__ bool whole_packs(std::int64_t n, const T* x, const More*... more) {
  return n % whole_pack<T> == 0 && packed(x) && (packed(more) && ...);
}

template <class P, class T>
__device__ void expect_packed([[maybe_unused]] const T* x) {
  if constexpr (emulated)
    if (reinterpret_cast<std::uintptr_t>(x) % alignof(P) != 0) fail("a pack that is not aligned to its size");
}

// x[0], ..., x[count - 1]
template <int count, class T>
__device__ Pack<T, count> load_pack(const T* x) {
  expect_packed<Pack<T, count>>(x);
  return *reinterpret_cast<const Pack<T, count>*>(x);
}
template <int count, class T>
__device__ void store_pack(T* x, const Pack<T, count>& pack) {
  expect_packed<Pack<T, count>>(x);
#if defined(__CUDACC__)
  using Whole = unsigned __int128;  // one value: nvcc stores the elements of a struct by themselves where it branches
  if constexpr (sizeof pack == sizeof(Whole)) {
    Whole whole;
    memcpy(&whole, &pack, sizeof whole);
    *reinterpret_cast<Whole*>(x) = whole;
    return;
  }
#endif
  *reinterpret_cast<Pack<T, count>*>(x) = pack;
}

// A pack each of two rows.
template <class T, int count>
struct TwoPacks {
  Pack<T, count> first, second;
};
template <int count, class T>
__device__ TwoPacks<T, count> two_packs(const T* first, const T* second) {
  return {load_pack<count>(first), load_pack<count>(second)};
}

// A number of elements as a value, so that a generic lambda has it at compile time.
template <int count>
struct Width {
  REPDL_HD constexpr int operator()() const { return count; }
};

// f(Width<count>()): packs of T where they are whole, else each element by itself.
template <class T, class F>
__device__ void with_packs(bool whole, const F& f) {
  if (whole)
    f(Width<whole_pack<T>>());
  else
    f(Width<1>());
}

// use(i, load(i)) for i = 0, count, 2 * count, ... below n, by all threads of a CUDA block along x. All loads of a
// batch come before its uses, which may store to the same memory for all that a compiler knows; past the end a thread's
// own first pack is loaded again. n is a multiple of count.
template <int count, int batch, class Load, class Use>
__device__ void each_pack(std::int64_t n, const Load& load, const Use& use) {
  const std::int64_t stride = static_cast<std::int64_t>(blockDim.x) * count;
#pragma unroll 1
  for (std::int64_t first = static_cast<std::int64_t>(threadIdx.x) * count; first < n; first += batch * stride) {
    if (first >= batch * stride) REPDL_ROUND("rows: packs of a thread");
    decltype(load(first)) loaded[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) loaded[j] = load(first + j * stride < n ? first + j * stride : first);
#pragma unroll
    for (int j = 0; j < batch; ++j)
      if (j == 0 || first + j * stride < n) use(first + j * stride, loaded[j]);
  }
}

// How many elements of a flat array a thread takes with each_tile_pack, and a block.
constexpr int tile_each = 4;
REPDL_HD constexpr std::int64_t tile_of(int threads) { return static_cast<std::int64_t>(threads) * tile_each; }

// use(i, load(i)) for the packs of this block's tile of n elements; loads come before the uses.
template <int count, class Load, class Use>
__device__ void each_tile_pack(std::int64_t n, const Load& load, const Use& use) {
  const std::int64_t tile = tile_of(blockDim.x), begin = blockIdx.x * tile;
  each_pack<count, tile_each / count>(
      n - begin < tile ? n - begin : tile, [&](std::int64_t i) { return load(begin + i); },
      [&](std::int64_t i, const auto& loaded) { use(begin + i, loaded); });
}

}  // namespace repdl::cuda
