// What conv2d and its gradients share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/bind.hpp"

namespace repdl::cpu {

struct Geometry {
  std::int64_t n, c, h, w;  // input; c and o count all groups
  std::int64_t o, oh, ow;
  std::int64_t kh, kw;
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  std::int64_t groups;

  std::int64_t group_c() const { return c / groups; }
  std::int64_t group_o() const { return o / groups; }
};

inline Geometry geometry(const Sizes& s) {
  return {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13], s[14], s[15]};
}

// Memory of one call, not initialised.
using Storage = std::unique_ptr<float[]>;

inline Storage allocate(std::int64_t floats) {
  return Storage(new float[static_cast<std::size_t>(std::max<std::int64_t>(floats, 1))]);
}

// dX[n, c, p] = dot over (o, kh, kw) of W[k, c] and G[n, k, p]; conv2d_grad_input.cpp.
void conv2d_grad_input(const float* grad, const float* weight, float* output, const Geometry& g, std::int64_t chunk,
                       int threads);

// dW[o, c, kh, kw] = dot over (n, p) of G[o, k] and X[k, (c, kh, kw)]; conv2d_grad_weight.cpp.
void conv2d_grad_weight(const float* grad, const float* input, float* output, const Geometry& g, std::int64_t chunk,
                        int threads);

}  // namespace repdl::cpu
