// Masks of attention, and the scores before them (attention.md, steps 2 to 4).
#pragma once

#include <cstdint>
#include <limits>

#include "repdl/backend.hpp"

namespace repdl::cpu::attention {

// What is added to scores, or says which are visible: (batch, heads of the query, length, keys), sizes 1 for all.
class Mask {
 public:
  Mask(const Tensor& bias, const Tensor& mask) : tensor_(bias.given ? bias : mask), has_bias_(bias.given) {}

  bool given() const { return tensor_.given; }

  // x[j] = x[j] * factor, and that with the mask of a row, for j < keys.
  void apply(float* x, float factor, std::int64_t keys, std::int64_t batch, std::int64_t head, std::int64_t row) const {
    if (!given()) return scale(x, factor, keys);
    const std::int64_t at = batch * step(0) + head * step(1) + row * step(2), stride = step(3);
    if (has_bias_) {
      const float* bias = tensor_.as<float>() + at;
      if (stride == 1)
        for (std::int64_t j = 0; j < keys; ++j) x[j] = x[j] * factor + bias[j];
      else
        for (std::int64_t j = 0; j < keys; ++j) x[j] = x[j] * factor + bias[j * stride];
      return;
    }
    constexpr float hidden = -std::numeric_limits<float>::infinity();
    const auto* visible = tensor_.as<std::uint8_t>() + at;
    if (stride == 1)
      for (std::int64_t j = 0; j < keys; ++j) x[j] = visible[j] ? x[j] * factor : hidden;
    else
      for (std::int64_t j = 0; j < keys; ++j) x[j] = visible[j * stride] ? x[j] * factor : hidden;
  }

  // Gradients of what is not visible are +0.
  void hide(float* x, std::int64_t keys, std::int64_t batch, std::int64_t head, std::int64_t row) const {
    if (!given() || has_bias_) return;
    const auto* visible = tensor_.as<std::uint8_t>() + batch * step(0) + head * step(1) + row * step(2);
    const std::int64_t stride = step(3);
    if (stride == 1)
      for (std::int64_t j = 0; j < keys; ++j) x[j] = visible[j] ? x[j] : 0.0f;
    else
      for (std::int64_t j = 0; j < keys; ++j) x[j] = visible[j * stride] ? x[j] : 0.0f;
  }

  static void scale(float* x, float factor, std::int64_t n) {
    for (std::int64_t j = 0; j < n; ++j) x[j] = x[j] * factor;
  }

 private:
  std::int64_t step(int d) const { return tensor_.size[d] == 1 ? 0 : tensor_.stride[d]; }

  const Tensor& tensor_;
  bool has_bias_;
};

}  // namespace repdl::cpu::attention
