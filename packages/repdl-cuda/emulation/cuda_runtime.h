// CUDA's names for host C++: the part of the language and of the runtime that kernels use here.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "emulation.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

namespace emulation = repdl::emulation;

// ---- vector types
#define REPDL_VECTOR_TYPES(T, name)                                              \
  struct alignas(2 * sizeof(T)) name##2 { T x, y; };                             \
  struct alignas(sizeof(T) == 8 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; }; \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                     \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
REPDL_VECTOR_TYPES(float, float)
REPDL_VECTOR_TYPES(double, double)
REPDL_VECTOR_TYPES(int, int)
REPDL_VECTOR_TYPES(unsigned, uint)
#undef REPDL_VECTOR_TYPES

// ---- barriers, shuffles, votes; the line of the call tells one from another
inline void __syncthreads(int line = __builtin_LINE()) { emulation::wait_block(line); }
inline int __syncthreads_or(int vote, int line = __builtin_LINE()) { return emulation::wait_block(line, vote != 0); }
inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) { emulation::exchange(mask, 0, line); }

namespace repdl::emulation {

inline int lane() {
  return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

// The value that lane `from` brought, or the own one where it is outside the segment of `width` lanes.
template <class T>
T shuffle(unsigned mask, T value, int from, int width, int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const std::uint64_t* all = exchange(mask, bits, line);
  if (from < 0 || from > 31 || from / width != lane() / width) return value;
  if (!(mask >> from & 1)) fail("a shuffle reads a lane that is not in its mask");
  std::memcpy(&value, &all[from], sizeof value);
  return value;
}

}  // namespace repdl::emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, int line = __builtin_LINE()) {
  return emulation::shuffle(mask, value, emulation::lane() / width * width + (from & (width - 1)), width, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, int line = __builtin_LINE()) {
  return emulation::shuffle(mask, value, emulation::lane() + static_cast<int>(by), width, line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, int line = __builtin_LINE()) {
  return emulation::shuffle(mask, value, emulation::lane() - static_cast<int>(by), width, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32, int line = __builtin_LINE()) {
  return emulation::shuffle(mask, value, emulation::lane() ^ by, width, line);
}

inline unsigned __ballot_sync(unsigned mask, int vote, int line = __builtin_LINE()) {
  const std::uint64_t* all = emulation::exchange(mask, vote != 0, line);
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= (mask >> i & 1) && all[i] ? 1u << i : 0u;
  return result;
}
inline int __any_sync(unsigned mask, int vote, int line = __builtin_LINE()) {
  return __ballot_sync(mask, vote, line) != 0;
}
inline int __all_sync(unsigned mask, int vote, int line = __builtin_LINE()) {
  return __ballot_sync(mask, vote, line) == mask;
}

// ---- memory, bits
template <class T>
T __ldg(const T* p) {
  return *p;
}
// One fiber runs at a time. Of whole numbers only: the order of float additions is the contract's.
template <class T>
T atomicAdd(T* p, T x) {
  static_assert(std::is_integral_v<T>);
  const T before = *p;
  *p = before + x;
  return before;
}
template <class T>
T atomicMin(T* p, T x) {
  static_assert(std::is_integral_v<T>);
  const T before = *p;
  *p = x < before ? x : before;
  return before;
}
inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
inline std::uint64_t __umul64hi(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }

// ---- the runtime: one device that is always there and never fails
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount };
using cudaStream_t = struct CUstream_st*;
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
};
inline const char* cudaGetErrorName(cudaError_t) { return "emulation"; }
inline const char* cudaGetErrorString(cudaError_t) { return "invalid launch"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = emulation::multiprocessors();
  return cudaSuccess;
}
inline cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int bytes) {
  return bytes <= 64 << 10 ? cudaSuccess : cudaErrorInvalidValue;  // the least of compute capability 7.5 and up
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments... arguments) {
  static_assert(sizeof(std::tuple<Parameters...>) <= 4096, "a kernel has at most 4096 bytes of arguments");
  const dim3 grid = config->gridDim, block = config->blockDim;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64) return cudaErrorInvalidConfiguration;
  emulation::streams().insert(config->stream);
  emulation::run(grid, block, config->dynamicSmemBytes, [=] { kernel(arguments...); });
  return cudaSuccess;
}
