// Padded images, laid out so that neighbouring positions of a convolution are neighbours in memory,
// whatever its stride.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/routes.hpp"
#include "simd/simd.hpp"

namespace repdl::cpu {

// One side of a padded image: `extent` elements, the image from `before` on. Elements of one phase
// modulo the stride lie together; phases that no tap reads take no space.
class Axis {
 public:
  Axis(std::int64_t size, std::int64_t before, std::int64_t extent, std::int64_t stride = 1, std::int64_t taps = 1,
       std::int64_t dilation = 1)
      : size_(size), before_(before), stride_(stride), length_((extent + stride - 1) / stride) {
    slot_.assign(static_cast<std::size_t>(stride), -1);
    for (std::int64_t k = 0; k < taps; ++k) {
      std::int64_t& slot = slot_[static_cast<std::size_t>(k * dilation % stride)];
      if (slot < 0) slot = slots_++;
    }
    for (std::int64_t phase = 0; phase < stride; ++phase) {
      if (slot_[static_cast<std::size_t>(phase)] < 0) continue;
      const std::int64_t offset = slot_[static_cast<std::size_t>(phase)] * length_;
      const auto reach = [&](std::int64_t element) {  // first neighbour at or after an element of the image
        return std::clamp<std::int64_t>((element + before - phase + stride - 1) / stride, 0, length_);
      };
      const std::int64_t from = reach(0), to = std::max(from, reach(size));
      add_segment(offset, from, -1);
      add_segment(offset + from, to - from, from * stride + phase - before);
      add_segment(offset + to, length_ - to, -1);
    }
  }

  std::int64_t total() const { return slots_ * length_; }
  std::int64_t index(std::int64_t element) const {
    return slot_[static_cast<std::size_t>(element % stride_)] * length_ + element / stride_;
  }

  // Calls body(offset, count, first): `count` neighbours from `offset` on are elements first,
  // first + stride, ... of the image; first = -1 where they are zeros.
  template <class Body>
  void for_each_segment(const Body& body) const {
    for (const Segment& segment : segments_) body(segment.offset, segment.count, segment.first);
  }

  std::int64_t stride() const { return stride_; }
  bool is_image() const { return stride_ == 1 && before_ == 0 && length_ == size_; }

 private:
  struct Segment {
    std::int64_t offset, count, first;
  };

  void add_segment(std::int64_t offset, std::int64_t count, std::int64_t first) {
    if (count > 0) segments_.push_back({offset, count, first});
  }

  std::int64_t size_, before_, stride_, length_, slots_ = 0;
  std::vector<std::int64_t> slot_;  // of each phase, -1 where unused
  std::vector<Segment> segments_;
};

// dst[i] = src[i * stride], i < count.
inline void copy_strided(const float* src, std::int64_t stride, std::int64_t count, float* dst) {
  constexpr int W = Vec::width;
  std::int64_t i = 0;
  if (stride == 2) {
    REPDL_ROUTE("padded image: stride of 2");
    for (; i + W < count; i += W) load_even(src + 2 * i).store(dst + i);
    if (const int rest = static_cast<int>(count - i); rest > 0) load_even(src + 2 * i, rest).store(dst + i, rest);
    return;
  }
  REPDL_ROUTE("padded image: stride of 3 or more");
  for (; i < count; ++i) dst[i] = src[i * stride];
}

struct PaddedImage {
  std::int64_t channels, h, w;  // of the image
  Axis rows, columns;

  static constexpr std::int64_t slack = 64;  // floats that may be read past the end

  std::int64_t area() const { return rows.total() * columns.total(); }
  std::int64_t floats() const { return channels * area() + slack; }
  std::int64_t at(std::int64_t c, std::int64_t y, std::int64_t x) const {
    return c * area() + rows.index(y) * columns.total() + columns.index(x);
  }

  // Whether nothing is padded or moved.
  bool is_image() const { return rows.is_image() && columns.is_image(); }

  void fill(const float* image, float* dst) const {
    const std::int64_t width = columns.total();
    for (std::int64_t c = 0; c < channels; ++c, image += h * w, dst += area())
      rows.for_each_segment([&](std::int64_t line, std::int64_t lines, std::int64_t y) {
        if (y < 0) std::fill(dst + line * width, dst + (line + lines) * width, 0.0f);
        for (std::int64_t i = 0; y >= 0 && i < lines; ++i) {
          const float* src = image + (y + i * rows.stride()) * w;
          float* to = dst + (line + i) * width;
          columns.for_each_segment([&](std::int64_t offset, std::int64_t count, std::int64_t x) {
            if (x < 0)
              std::fill(to + offset, to + offset + count, 0.0f);
            else if (columns.stride() == 1)
              std::copy(src + x, src + x + count, to + offset);
            else
              copy_strided(src + x, columns.stride(), count, to + offset);
          });
        }
      });
  }
};

// Positions (y, x) of the product in a padded image: y * row_step + x.
struct Grid {
  std::int64_t rows, columns, row_step;
  std::int64_t size() const { return rows * columns; }
};

}  // namespace repdl::cpu
