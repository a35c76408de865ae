// What differs between a GPU and its emulation on a CPU (../emulation): shared memory, and how a kernel ends in an
// error.
#pragma once

#include <cuda_runtime.h>

namespace repdl::cuda {

#if defined(__CUDACC__)
// The block's shared memory of type T: one T a block, whichever thread asks. It holds
// anything at first (NaN in the emulated build).
template <class T>
__device__ __forceinline__ T& shared() {
  __shared__ T memory;
  return memory;
}

// The block's shared memory of the size given to launch.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return reinterpret_cast<T*>(bytes);
}

constexpr bool emulated = false;
#else
using emulation::dynamic_shared;
using emulation::shared;

constexpr bool emulated = true;
#endif

// Ends the program's use of the device, as assert() does, which NDEBUG would take out; emulated, raises.
__device__ inline void fail([[maybe_unused]] const char* what) {
#if defined(__CUDA_ARCH__)
  __assert_fail(what, "platform.hpp", __LINE__, "repdl");
#elif !defined(__CUDACC__)
  emulation::fail(what);
#endif
}

}  // namespace repdl::cuda
