// Asynchronous copies to shared memory (cp.async), with the address in one 32-bit register.
//
// CUDA's own __pipeline_memcpy_async converts a generic pointer at every copy, three
// instructions of a loop that has none to spare. commit and wait are CUDA's.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "base/launch.hpp"

namespace repdl::cuda {

#if defined(__CUDACC__)
class SharedPointer {
 public:
  __device__ explicit SharedPointer(void* p) : at_(static_cast<unsigned>(__cvta_generic_to_shared(p))) {}
  __device__ SharedPointer operator+(int bytes) const {
    SharedPointer result = *this;
    result.at_ += bytes;
    return result;
  }

  // 4, 8 or 16 bytes
  template <int bytes>
  __device__ void copy_from(const void* from) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (bytes == 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at_), "l"(from) : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at_), "l"(from), "n"(bytes) : "memory");
#else
    __pipeline_memcpy_async(__cvta_shared_to_generic(at_), from, bytes);
#endif
  }

  // The same 4 or 8 bytes, or zeros, for which nothing is read.
  template <int bytes>
  __device__ void copy_or_zero(bool there, const void* from) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile(
        "{ .reg .pred zero;\n setp.eq.u32 zero, %3, 0;\n cp.async.ca.shared.global [%0], [%1], %2, zero; }" ::"r"(at_),
        "l"(from), "n"(bytes), "r"(static_cast<unsigned>(there))
        : "memory");
#else
    __pipeline_memcpy_async(__cvta_shared_to_generic(at_), from, bytes, there ? 0 : bytes);
#endif
  }

 private:
  unsigned at_;
};
#else
class SharedPointer {
 public:
  explicit SharedPointer(void* p) : at_(static_cast<char*>(p)) {}
  SharedPointer operator+(int bytes) const { return SharedPointer(at_ + bytes); }
  template <int bytes>
  void copy_from(const void* from) const {
    __pipeline_memcpy_async(at_, from, bytes);
  }
  template <int bytes>
  void copy_or_zero(bool there, const void* from) const {
    __pipeline_memcpy_async(at_, from, bytes, there ? 0 : bytes);
  }

 private:
  char* at_;
};
#endif

}  // namespace repdl::cuda
