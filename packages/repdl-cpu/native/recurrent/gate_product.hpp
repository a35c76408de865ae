// The product of a step of a recurrent layer: the state of some rows against the weight of some elements' gates, plus
// the bias. For many steps the weight is packed once, the gates of a block of elements side by side; for few it is
// read in place.
#pragma once

#include <cstring>

#include "base/threads.hpp"
#include "gemm/panels.hpp"
#include "gemm/product.hpp"
#include "repdl/shape/products.hpp"

namespace repdl::cpu::recurrent {

// The weight (gates * size, K) of any strides as columns of B: panels of each gate of the first elements, then of the
// next, zero where elements end.
struct GatePacker {
  StridedPacker weight;
  std::int64_t gates, size;

  void pack(std::int64_t first, std::int64_t, int width, std::int64_t k0, std::int64_t kc, float* dst) const {
    const std::int64_t panel = first / width, element = panel / gates * width;
    weight.pack(panel % gates * size + element, std::min<std::int64_t>(width, size - element), width, k0, kc, dst);
  }
};

// Where a product lies: gate g of element e of its row r at data[r * row + e / width * block + g * width + e % width].
struct GateSums {
  float* data;
  std::int64_t row, block, width;
};

class GateProduct {
 public:
  // weight (gates * size, K), bias (gates * size) or null, for `steps` products of at most `rows` rows.
  GateProduct(const Tensor& weight, const float* bias, std::int64_t gates, std::int64_t steps, std::int64_t rows,
              std::int64_t chunk, int threads)
      : weight_{weight.as<float>(), weight.stride[0], weight.stride[1]}, bias_(bias), gates_(gates),
        size_(weight.size[0] / gates), K_(weight.size[1]), chunk_(chunk),
        packs_(steps > (rows <= few_rows ? few_steps : few_steps / 2)),
        panels_(packs_ ? blocks() * gates * unit(size_) : 0, K_, unit(size_) / Vec::width),
        packed_bias_(packs_ && bias ? blocks() * gates * unit(size_) : 0) {
    if (!packs_) return;
    constexpr std::int64_t grain = 1 << 16;  // floats worth a thread
    const std::int64_t block = gates * unit(size_);
    parallel_for(blocks(), grain / (block * std::max<std::int64_t>(K_, 1)) + 1, threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   panels_.pack(GatePacker{weight_, gates_, size_}, begin * gates_, end * gates_);
                 });
    if (bias) pack_bias();
  }

  std::int64_t size() const { return size_; }
  std::int64_t terms() const { return K_; }

  // Threads share blocks of so many elements.
  std::int64_t unit() const { return unit(size_); }
  std::int64_t blocks() const { return (size_ + unit(size_) - 1) / unit(size_); }
  std::int64_t floats(std::int64_t rows, std::int64_t blocks) const { return rows * blocks * gates_ * unit(size_); }

  // The sums of rows of h (K) and blocks of elements from the first on, in memory of `floats`.
  GateSums multiply(std::int64_t rows, const float* h, std::int64_t first, std::int64_t blocks, float* to) const {
    const std::int64_t begin = first * unit(), count = std::min(size_ - begin, blocks * unit());
    const StridedPacker state{h, K_, 1};
    if (packs_) {
      const std::int64_t columns = blocks * gates_ * unit(), column = first * gates_ * unit();
      Output out{to, columns};
      if (bias_) out.column_bias = packed_bias_.data() + column;
      panels_.multiply(rows, columns, K_, chunk_, state, out, column);
      return {to, columns, gates_ * unit(), unit()};
    }
    REPDL_ROUTE("recurrent: weight in place");
    for (std::int64_t g = 0; g < gates_; ++g) {
      const std::int64_t row = g * size_ + begin;
      Output out{to + g * count, gates_ * count};
      if (bias_) out.column_bias = bias_ + row;
      product(rows, count, K_, chunk_, state, {weight_.data + row * weight_.outer, weight_.outer, weight_.inner}, out);
    }
    return {to, gates_ * count, gates_ * count, count};
  }

 private:
  // To pack the weight takes as long as is won in so many steps of so many rows; of more, in half of them.
  static constexpr std::int64_t few_steps = 4, few_rows = 4;

  // Elements of a block: whole vectors, as many as a tile of any height has.
  static std::int64_t unit(std::int64_t size) {
    return std::clamp<std::int64_t>((size + Vec::width - 1) / Vec::width, 1, max_vectors(max_rows)) * Vec::width;
  }

  void pack_bias() const {
    float* to = packed_bias_.data();
    for (std::int64_t first = 0; first < size_; first += unit())
      for (std::int64_t g = 0; g < gates_; ++g, to += unit()) {
        const std::int64_t count = std::min(unit(), size_ - first);
        std::copy_n(bias_ + g * size_ + first, count, to);
        std::fill(to + count, to + unit(), 0.0f);
      }
  }

  StridedPacker weight_;
  const float* bias_;
  std::int64_t gates_, size_, K_, chunk_;
  bool packs_;
  PrepackedB panels_;
  Scratch<float> packed_bias_;
};

}  // namespace repdl::cpu::recurrent
