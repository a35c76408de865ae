// The machine that the emulated build runs kernels on: what runtime.cpp does for the headers here.
//
// The threads of a block are fibers of one host thread, one of which runs at a time until it
// waits for others. REPDL_EMULATION_SEED (0 by default) chooses the order. 0 is ascending: a warp
// runs up to the next barrier of the block, then the next warp does; copies are made at once. Any
// other number shuffles blocks, warps and lanes, changes from one warp to another at random, and
// delays asynchronous copies at random. Shared memory is NaN (all bits set) when a block starts.
//
// Kernels do not read this file: cuda_runtime.h and cuda_pipeline_primitives.h beside it
// have the names of CUDA's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// A component of blockIdx or gridDim. There may be 2^31 - 1 blocks, so that a product with one is computed in 64 bits:
// of 32 bits it does not compile here.
struct BlockNumber {
  unsigned value = 0;

  constexpr operator unsigned() const { return value; }
  explicit operator int() const = delete;
  template <class T>
  friend constexpr T operator*(BlockNumber a, T b) {
    static_assert(sizeof(T) == 8, "a product with blockIdx or gridDim in 32 bits: take static_cast<std::int64_t>(...)");
    return a.value * b;
  }
  template <class T>
  friend constexpr T operator*(T a, BlockNumber b) {
    return b * a;
  }
};
struct BlockNumbers {
  BlockNumber x, y, z;
};

// Those of the thread that runs now.
extern dim3 threadIdx, blockDim;
extern BlockNumbers blockIdx, gridDim;

namespace repdl::emulation {

// Runs body() once for each thread of each block. Raises std::runtime_error for a barrier or
// a warp operation that not all threads reach; what the kernel has written until then stays.
void run(dim3 grid, dim3 block, std::size_t dynamic_bytes, const std::function<void()>& body);

// The streams on which this host thread launched something since a test took them: everything runs at once.
std::set<void*>& streams();

// Waits for the whole block, and returns whether any of its threads voted; `line` tells one
// barrier from another.
bool wait_block(int line, bool vote = false);

// Waits for the lanes of `mask`, and returns the values that all 32 lanes brought.
const std::uint64_t* exchange(unsigned mask, std::uint64_t value, int line);

// The block's shared memory known by `key`.
void* shared_memory(const void* key, std::size_t bytes);
void* dynamic_memory();

// Asynchronous copies of the running thread: made at some time between copy and wait.
void copy_later(void* to, const void* from, std::size_t bytes, std::size_t zeros);
void commit_copies();
void wait_copies(std::size_t groups_left);

// What the machine says that it has: REPDL_EMULATION_MULTIPROCESSORS, or 4. Kernels choose grids by it.
int multiprocessors();

[[noreturn]] void fail(const char* what);

// native/launch.hpp has the same for nvcc.
template <class T>
T& shared() {
  static const char key = 0;
  return *static_cast<T*>(shared_memory(&key, sizeof(T)));
}
template <class T>
T* dynamic_shared() {
  return static_cast<T*>(dynamic_memory());
}

}  // namespace repdl::emulation
