// Whether this machine has a GPU that the kernels run on; asking makes no CUDA context.
#include "base/device.hpp"

#include "base/launch.hpp"

namespace repdl::cuda {

std::string no_device() {
  int count = 0, version = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error == cudaSuccess && count > 0) return "";
  cudaDriverGetVersion(&version);  // 0 where there is none; the runtime calls both cases insufficient
  if (version == 0) return "no NVIDIA driver is installed";
  if (error == cudaErrorInsufficientDriver)
    return "the NVIDIA driver supports CUDA " + std::to_string(version / 1000) + "." +
           std::to_string(version % 1000 / 10) + ", expected 13.0 or later (driver 580 or later)";
  if (error == cudaErrorNoDevice || error == cudaSuccess)
    return "the NVIDIA driver finds no GPU (see CUDA_VISIBLE_DEVICES)";
  return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

}  // namespace repdl::cuda
