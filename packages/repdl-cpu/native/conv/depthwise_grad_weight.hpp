// The weight gradient of a convolution with one channel a group.
#pragma once

#include <vector>

#include "gemm/chunk_tree.hpp"
#include "conv/padded_nhwc.hpp"

namespace repdl::cpu {

// One channel a group, one filter a channel: vectors of channels, T taps at a time.
//   dW[c, t] = dot over (n, y, x) of G[n, y, x, c] and X[n, y + kh, x + kw, c]
template <int T>
class DepthwiseTaps {
 public:
  explicit DepthwiseTaps(std::int64_t chunk) : chunk_(chunk), left_(chunk) { acc_.clear(); }

  // The terms of one padded image and its gradient, pixels of Vec::width channels.
  void add(const Geometry& g, const PaddedNhwc& image, const float* grad, const std::int64_t* offset) {
    REPDL_ROUTE("conv2d_grad_weight: depthwise, taps at once", T);
    const std::int64_t line = image.step_h * image.line(), step = image.step_w * image.pitch;
    for (std::int64_t y = 0; y < g.oh; ++y) {
      const float* x = image.data + y * line;
      for (std::int64_t i = 0; i < g.ow;) {
        if (left_ == 0) {
          REPDL_ROUTE("conv2d_grad_weight: depthwise, several chunks", T);
          tree_.push(acc_);
          acc_.clear();
          left_ = chunk_;
        }
        const std::int64_t end = std::min(g.ow, i + left_);
        left_ -= end - i;
        for (; i < end; ++i, x += step, grad += Vec::width) {
          const Vec value = Vec::load(grad);
#pragma GCC unroll 9
          for (int t = 0; t < T; ++t) acc_[t] = fma(value, Vec::load(x + offset[t]), acc_[t]);
        }
      }
    }
  }

  void finish(float* out, std::int64_t out_stride) {
    acc_ = tree_.finish(acc_);
    alignas(64) float lane[Vec::width];
    for (int t = 0; t < T; ++t) {
      canonical(acc_[t]).store(lane);
      for (int i = 0; i < Vec::width; ++i) out[i * out_stride + t] = lane[i];
    }
  }

 private:
  std::int64_t chunk_, left_;
  ChunkTree<T> tree_;
  Vecs<T> acc_;
};

// Vec::width channels from c on: images are transposed one at a time, and are in L2 for every tap.
inline void depthwise_channels(const float* grad, const float* input, float* output, const Geometry& g,
                               std::int64_t chunk, std::int64_t c, const PaddedNhwc& shape,
                               const std::vector<std::int64_t>& offset) {
  constexpr int W = Vec::width;
  const std::int64_t taps = g.kh * g.kw, positions = g.oh * g.ow, area = g.h * g.w;
  const Scratch<float> padded(shape.floats()), transposed(positions * W + pack_slack);
  PaddedNhwc image = shape;
  image.data = padded.data();
  std::vector<DepthwiseTaps<9>> nine(static_cast<std::size_t>(taps / 9), DepthwiseTaps<9>(chunk));
  std::vector<DepthwiseTaps<1>> one(static_cast<std::size_t>(taps % 9), DepthwiseTaps<1>(chunk));
  for (std::int64_t n = 0; n < g.n; ++n) {
    shape.fill(input + (n * g.c + c) * area, g.h, g.w, padded.data());
    channels_last(grad + (n * g.c + c) * positions, W, positions, positions, W, transposed.data());
    const std::int64_t* at = offset.data();
    for (auto& taps_of : nine) taps_of.add(g, image, transposed.data(), at), at += 9;
    for (auto& tap_of : one) tap_of.add(g, image, transposed.data(), at), at += 1;
  }
  float* out = output + c * taps;
  for (auto& taps_of : nine) taps_of.finish(out, taps), out += 9;
  for (auto& tap_of : one) tap_of.finish(out, taps), out += 1;
}

inline void depthwise_grad_weight(const float* grad, const float* input, float* output, const Geometry& g,
                                  std::int64_t chunk, int threads) {
  if (!chunk) chunk = std::max<std::int64_t>(g.n * g.oh * g.ow, 1);
  const PaddedNhwc image(g, Vec::width);
  std::vector<std::int64_t> offset;
  for (std::int64_t kh = 0; kh < g.kh; ++kh)
    for (std::int64_t kw = 0; kw < g.kw; ++kw)
      offset.push_back(kh * g.dilation_h * image.line() + kw * g.dilation_w * image.pitch);
  // The last channels are moved back where they would not fill a vector: same bits, twice.
  const std::int64_t blocks = (g.c + Vec::width - 1) / Vec::width;
  parallel_for(blocks, 1, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block)
      depthwise_channels(grad, input, output, g, chunk, std::min(block * Vec::width, g.c - Vec::width), image, offset);
  });
}

}  // namespace repdl::cpu
