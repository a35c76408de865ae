// Padded NHWC images, for the weight gradient of conv2d.
#pragma once

#include <algorithm>
#include <vector>

#include "base/scratch.hpp"
#include "base/routes.hpp"
#include "base/tuned.hpp"
#include "conv/padded_image.hpp"
#include "gemm/packing.hpp"
#include "repdl/shape/convolution.hpp"

namespace repdl::cpu {

// dst (pixels, pitch) = src (C, pixels), channels `area` apart; pack_slack floats after dst may be written.
inline void channels_last(const float* src, std::int64_t channels, std::int64_t area, std::int64_t pixels,
                          std::int64_t pitch, float* dst) {
  if (channels == 1 && pitch == 1) return (void)std::copy(src, src + pixels, dst);
  constexpr std::int64_t step = tuned(256, 16);  // long enough for sequential reads, short enough for L1
  if (pixels > step) REPDL_ROUTE("channels last: second step");
  for (std::int64_t p = 0; p < pixels; p += step)
    StridedPacker::transpose_pack(src + p, area, channels, static_cast<int>(pitch), std::min(step, pixels - p),
                                  dst + p * pitch);
}

// Images (H, W, C) of one group between zeros, one after the other: the pixels that the kernel
// reaches. Where a kernel has one row or column, only those that the stride leaves.
struct PaddedNhwc {
  std::int64_t channels, pitch;  // floats of a pixel, those between pixels
  Axis rows, columns;
  std::int64_t step_h, step_w;  // from one position to the next, in rows and columns of the padded image
  const float* data = nullptr;

  // Pixels whose distance is a large power of two would share few sets of a cache.
  PaddedNhwc(const Geometry& g, std::int64_t c)
      : channels(c), pitch(c % 256 == 0 ? c + 16 : c),
        rows(g.h, g.pad_h, (g.oh - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1, g.kh == 1 ? g.stride_h : 1),
        columns(g.w, g.pad_w, (g.ow - 1) * g.stride_w + (g.kw - 1) * g.dilation_w + 1, g.kw == 1 ? g.stride_w : 1),
        step_h(g.kh == 1 ? 1 : g.stride_h), step_w(g.kw == 1 ? 1 : g.stride_w) {}

  std::int64_t line() const { return columns.total() * pitch; }
  std::int64_t floats() const { return rows.total() * line() + pack_slack; }

  void fill(const float* image, std::int64_t h, std::int64_t w, float* dst) const {
    if (rows.is_image() && columns.is_image()) return channels_last(image, channels, h * w, h * w, pitch, dst);
    rows.for_each_segment([&](std::int64_t first, std::int64_t count, std::int64_t y) {
      if (y < 0) return (void)std::fill(dst + first * line(), dst + (first + count) * line(), 0.0f);
      const std::int64_t at_once = rows.stride() == 1 ? count : 1;
      const Scratch<float> scratch(at_once * w * pitch + pack_slack);
      float* transposed = scratch.data();
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t ready = i % at_once;
        if (ready == 0)
          channels_last(image + (y + i * rows.stride()) * w, channels, h * w, at_once * w, pitch, transposed);
        float* to = dst + (first + i) * line();
        columns.for_each_segment([&](std::int64_t place, std::int64_t pixels, std::int64_t x) {
          const float* from = transposed + (ready * w + x) * pitch;
          if (x < 0)
            std::fill(to + place * pitch, to + (place + pixels) * pitch, 0.0f);
          else if (columns.stride() == 1)
            std::copy(from, from + pixels * pitch, to + place * pitch);
          else
            for (std::int64_t j = 0; j < pixels; ++j)
              std::copy_n(from + j * columns.stride() * pitch, pitch, to + (place + j) * pitch);
        });
      }
    });
  }

  // Where the terms k = (n, y, x) are: the corner that tap (0, 0) reads.
  std::vector<std::int64_t> offsets(const Geometry& g) const {
    std::vector<std::int64_t> result(static_cast<std::size_t>(g.n * g.oh * g.ow + prefetch_ahead));
    std::int64_t* at = result.data();
    for (std::int64_t n = 0; n < g.n; ++n)
      for (std::int64_t y = 0; y < g.oh; ++y)
        for (std::int64_t x = 0; x < g.ow; ++x) *at++ = n * floats() + y * step_h * line() + x * step_w * pitch;
    return result;
  }

  // Columns j = (kh, kw, c): runs of contiguous (kw, c), or c where pixels are apart.
  std::int64_t run_length(const Geometry& g) const {
    if (g.dilation_w == 1 && pitch != channels) REPDL_ROUTE("pixels apart");
    return g.dilation_w == 1 && pitch == channels ? g.kw * channels : channels;
  }

  RunLayout run_layout(const Geometry& g) const {
    const std::int64_t length = run_length(g);
    return {length, g.kw * channels / length, g.dilation_h * line(), g.dilation_w * pitch};
  }
};

}  // namespace repdl::cpu
