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
    constexpr float hidden = -std::numeric_limits<float>::infinity();
    if (has_bias_)
      each<float>(keys, batch, head, row, [=](std::int64_t j, float bias) { x[j] = x[j] * factor + bias; });
    else
      each<std::uint8_t>(keys, batch, head, row,
                         [=](std::int64_t j, bool visible) { x[j] = visible ? x[j] * factor : hidden; });
  }

  // Gradients of what is not visible are +0.
  void hide(float* x, std::int64_t keys, std::int64_t batch, std::int64_t head, std::int64_t row) const {
    if (!given() || has_bias_) return;
    each<std::uint8_t>(keys, batch, head, row, [=](std::int64_t j, bool visible) { x[j] = visible ? x[j] : 0.0f; });
  }

  static void scale(float* x, float factor, std::int64_t n) {
    for (std::int64_t j = 0; j < n; ++j) x[j] = x[j] * factor;
  }

 private:
  // body(j, element j) of a row, for j < keys.
  template <class T, class Body>
  void each(std::int64_t keys, std::int64_t batch, std::int64_t head, std::int64_t row, const Body& body) const {
    const T* element = tensor_.as<T>() + batch * step(0) + head * step(1) + row * step(2);
    const std::int64_t stride = step(3);
    if (stride == 1)  // in vectors
      for (std::int64_t j = 0; j < keys; ++j) body(j, element[j]);
    else
      for (std::int64_t j = 0; j < keys; ++j) body(j, element[j * stride]);
  }

  std::int64_t step(int d) const { return tensor_.size[d] == 1 ? 0 : tensor_.stride[d]; }

  const Tensor& tensor_;
  bool has_bias_;
};

}  // namespace repdl::cpu::attention
