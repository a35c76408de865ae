// The sizes of a two-dimensional convolution and its options.
#pragma once

#include "repdl/backend.hpp"

namespace repdl {

struct Geometry {
  std::int64_t n, c, h, w;  // input; c and o count all groups
  std::int64_t o, oh, ow;
  std::int64_t kh, kw;
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  std::int64_t groups;

  std::int64_t group_c() const { return c / groups; }
  std::int64_t group_o() const { return o / groups; }
};

// Of a convolution from `input` (N, C, H, W) to `output` (N, O, OH, OW), or of one of its gradients.
inline Geometry geometry(const Tensor& input, const Tensor& output, const std::int64_t* kernel, Ints stride,
                         Ints padding, Ints dilation, std::int64_t groups) {
  return {input.size[0],  input.size[1], input.size[2], input.size[3], output.size[1], output.size[2],
          output.size[3], kernel[0],     kernel[1],     stride[0],     stride[1],      padding[0],
          padding[1],     dilation[0],   dilation[1],   groups};
}

}  // namespace repdl
