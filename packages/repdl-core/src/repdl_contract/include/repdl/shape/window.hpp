// Windows along one side of images: pooling, one of their two spatial dimensions.
#pragma once

#include "repdl/backend.hpp"
#include "repdl/host_device.hpp"

namespace repdl {

struct WindowSide {
  std::int64_t size, out, kernel, stride, padding, dilation;

  // Side 0 (height) or 1 (width) of images (N, C, H, W) and (N, C, OH, OW).
  WindowSide(int side, const Tensor& input, const Tensor& output, Ints kernel_size, Ints strides, Ints paddings,
             Ints dilations)
      : size(input.size[2 + side]), out(output.size[2 + side]), kernel(kernel_size[side]), stride(strides[side]),
        padding(paddings[side]), dilation(dilations[side]) {}

  // Where tap k of window o lies, which may be outside.
  REPDL_HD std::int64_t at(std::int64_t o, std::int64_t k) const { return o * stride - padding + k * dilation; }
};

}  // namespace repdl
