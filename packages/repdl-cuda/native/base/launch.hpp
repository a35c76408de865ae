// Launching kernels: the one way from the host into a kernel, and what kernels share.
//
// A launch allocates nothing and waits for nothing, so that CUDA graphs can capture it. The
// same file serves the emulated build, whose cuda_runtime.h is that of ../emulation.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>

#include "base/platform.hpp"
#include "base/rounds.hpp"
#include "base/types.hpp"
#include "repdl/backend.hpp"

namespace repdl::cuda {

inline Stream stream_of(const ExecContext& exec) {
  return {exec.device, reinterpret_cast<std::uintptr_t>(exec.stream)};
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Raises for what CUDA reports; the error is taken off, so that the next call starts clean.
inline void check(const std::string& op, cudaError_t error) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(op + ": " + cudaGetErrorName(error) + ": " + cudaGetErrorString(error));
}

// Makes a device the current one, and puts the caller's back.
class DeviceGuard {
 public:
  DeviceGuard(const std::string& op, int device) {
    check(op, cudaGetDevice(&before_));
    if (device == before_) return;
    check(op, cudaSetDevice(device));
    changed_ = true;
  }
  ~DeviceGuard() {
    if (changed_) cudaSetDevice(before_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

struct Grid {
  std::int64_t x = 1, y = 1, z = 1;
};

// Runs kernel<<<grid, block, shared_bytes, stream>>>(args...). A grid without blocks is no
// launch. `op` is the name that errors begin with; `shared_bytes` is what dynamic_shared() has.
template <class... Parameters, class... Arguments>
void launch(const char* op, void (*kernel)(Parameters...), Grid grid, dim3 block, std::size_t shared_bytes,
            const Stream& stream, Arguments... arguments) {
  constexpr std::int64_t most_x = 2147483647, most_yz = 65535;
  constexpr std::size_t without_asking = 48 << 10;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (grid.x < 0 || grid.x > most_x || grid.y < 0 || grid.y > most_yz || grid.z < 0 || grid.z > most_yz)
    throw std::runtime_error(std::string(op) + ": the grid has " + std::to_string(grid.x) + " x " +
                             std::to_string(grid.y) + " x " + std::to_string(grid.z) +
                             " blocks, expected at most 2147483647 x 65535 x 65535; use smaller tensors");
  const DeviceGuard guard(op, stream.first);
  if (shared_bytes > without_asking)
    check(op, cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared_bytes)));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = reinterpret_cast<cudaStream_t>(stream.second);
  check(op, cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

// The number of multiprocessors, for choosing a grid; never for choosing an order.
inline int multiprocessors(const char* op, const Stream& stream) {
  int count = 0;
  check(op, cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, stream.first));
  return count;
}

// Of every architecture. CUDA's warpSize is read when a kernel runs: each division by it is one.
constexpr unsigned warp_size = 32;

// This thread's and the grid's number of threads along x.
__device__ inline std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

}  // namespace repdl::cuda
