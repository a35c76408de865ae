// The sums of the contract (sum.md), for the sum itself and for every kernel that has one
// inside (softmax, norms, losses):
//
//   sum_row(x, n, stride, contract)         a strided row in memory
//   sum_of(n, contract, f)                  f(0) + f(1) + ... computed on the fly
//   sum_filled(n, contract, fill)           elements written by fill(start, count, dst)
//   sum_columns(n, columns, row, out, ...)  many columns at once, element (i, c) at row(i)[c]
//
// Order, for each output on its own: blocks of sum_block; in a block element i goes to
// lane i mod sum_lanes, a chain of adds from +0; lanes fold by halves; blocks join by the
// tree. No lane is ever -0 (it starts from +0), so adding +0 to a lane changes nothing:
// absent lanes and the +0 of a masked load are free. No result is made canonical here.
//
// All of it belongs inside parallel_for, which sets the floating-point environment.
#pragma once

#include <algorithm>
#include <cstdint>

#include "repdl/contract/order.hpp"
#include "simd.hpp"

namespace repdl::cpu {

constexpr int v1_lanes = 64;
constexpr std::int64_t sum_piece = 1024;  // floats of a staging buffer; a multiple of 64

// The order of a sum, from the fields that reach a binding.
inline Contract sum_order(std::int64_t lanes, std::int64_t block) {
  Contract contract;
  contract.sum_lanes = lanes;
  contract.sum_block = block;
  return contract;
}

inline std::int64_t sum_block_of(const Contract& contract, std::int64_t n) {
  return contract.sum_block ? contract.sum_block : std::max<std::int64_t>(n, 1);
}

// The lanes of one vector folded by halves: j + (j + width / 2), and so on down to one.
inline float fold(Vec a) {
#if defined(__SSE2__)
#if defined(__AVX512F__)
  alignas(64) float lane[Vec::width];
  a.store(lane);
  const __m256 half = _mm256_add_ps(_mm256_load_ps(lane), _mm256_load_ps(lane + 8));
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif defined(__AVX2__) && defined(__FMA__)
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
#else
  const __m128 quarter = a.v;
#endif
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
#else
  float lane[Vec::width];
  a.store(lane);
  for (int width = Vec::width / 2; width >= 1; width /= 2)
    for (int j = 0; j < width; ++j) lane[j] += lane[j + width];
  return lane[0];
#endif
}

// The 64 lanes of v1 in registers, and what is added to them in ascending index.
class Lanes64 {
 public:
  Lanes64() {
    for (Vec& a : lane_) a = Vec::zero();
  }

  // Elements that start at a multiple of 64 within the block.
  void add(const float* x, std::int64_t n) {
    const std::int64_t whole = n / v1_lanes * v1_lanes;
    for (int g = 0; g < vectors; g += group) {
      Vec acc[group];
      for (int v = 0; v < group; ++v) acc[v] = lane_[g + v];
      const float* p = x + g * Vec::width;
      for (std::int64_t i = 0; i < whole; i += v1_lanes)
        for (int v = 0; v < group; ++v) acc[v] = acc[v] + Vec::load(p + i + v * Vec::width);
      for (int v = 0; v < group; ++v) lane_[g + v] = acc[v];
    }
    const int rest = static_cast<int>(n - whole);
    for (int v = 0; v * Vec::width < rest; ++v) {
      const float* p = x + whole + v * Vec::width;
      const int count = rest - v * Vec::width;
      lane_[v] = lane_[v] + (count < Vec::width ? Vec::load(p, count) : Vec::load(p));
    }
  }

  float result() const {
    Vec a[vectors];
    for (int v = 0; v < vectors; ++v) a[v] = lane_[v];
    for (int half = vectors / 2; half >= 1; half /= 2)
      for (int v = 0; v < half; ++v) a[v] = a[v] + a[v + half];
    return fold(a[0]);
  }

 private:
  static constexpr int vectors = v1_lanes / Vec::width;
  static constexpr int group = vectors < 8 ? vectors : 8;  // narrow ISAs: two passes
  Vec lane_[vectors];
};

// Lanes of any number, one element at a time: f(i) for i < n.
template <class F>
float sum_block_any(std::int64_t n, std::int64_t lanes, F&& f) {
  if (lanes == 1) {
    float chain = 0.0f;
    for (std::int64_t i = 0; i < n; ++i) chain = chain + f(i);
    return chain;
  }
  float lane[v1_lanes] = {};
  for (std::int64_t i = 0; i < n; ++i) lane[i & (lanes - 1)] += f(i);
  for (std::int64_t width = lanes / 2; width >= 1; width /= 2)
    for (std::int64_t j = 0; j < width; ++j) lane[j] += lane[j + width];
  return lane[0];
}

// One block in memory.
inline float sum_block(const float* x, std::int64_t n, const Contract& contract) {
  if (contract.sum_lanes != v1_lanes)
    return sum_block_any(n, contract.sum_lanes, [x](std::int64_t i) { return x[i]; });
  Lanes64 lanes;
  lanes.add(x, n);
  return lanes.result();
}

// One block of elements that fill(start, count, dst) writes, start counting from `begin`.
template <class Fill>
float sum_block_filled(std::int64_t begin, std::int64_t n, const Contract& contract, Fill&& fill) {
  alignas(64) float staged[sum_piece];
  if (n <= sum_piece) {
    fill(begin, n, staged);
    return sum_block(staged, n, contract);
  }
  if (contract.sum_lanes == v1_lanes) {
    Lanes64 lanes;
    for (std::int64_t i = 0; i < n; i += sum_piece) {
      const std::int64_t count = std::min(sum_piece, n - i);
      fill(begin + i, count, staged);
      lanes.add(staged, count);
    }
    return lanes.result();
  }
  return sum_block_any(n, contract.sum_lanes, [&](std::int64_t i) {
    if (i % sum_piece == 0) fill(begin + i, std::min(sum_piece, n - i), staged);
    return staged[i % sum_piece];
  });
}

// Elements written piece by piece: fill(start, count, dst) puts elements start .. start +
// count of the reduced index to dst, count <= 1024, start ascending.
template <class Fill>
float sum_filled(std::int64_t n, const Contract& contract, Fill&& fill) {
  const std::int64_t block = sum_block_of(contract, n);
  if (n <= block) return sum_block_filled(0, n, contract, fill);
  Tree<float> tree;
  for (std::int64_t i = 0; i < n; i += block)
    tree.push(sum_block_filled(i, std::min(block, n - i), contract, fill));
  return tree.result();
}

// f(0) + f(1) + ... + f(n - 1); a simple f becomes a vector loop.
template <class F>
float sum_of(std::int64_t n, const Contract& contract, F&& f) {
  return sum_filled(n, contract, [&f](std::int64_t start, std::int64_t count, float* dst) {
    for (std::int64_t i = 0; i < count; ++i) dst[i] = f(start + i);
  });
}

// x[0] + x[stride] + ... + x[(n - 1) * stride].
inline float sum_row(const float* x, std::int64_t n, std::int64_t stride, const Contract& contract) {
  if (stride != 1) return sum_of(n, contract, [x, stride](std::int64_t i) { return x[i * stride]; });
  const std::int64_t block = sum_block_of(contract, n);
  if (n <= block) return sum_block(x, n, contract);
  Tree<float> tree;
  for (std::int64_t i = 0; i < n; i += block)
    tree.push(sum_block(x + i, std::min(block, n - i), contract));
  return tree.result();
}

constexpr std::int64_t sum_columns_tile = 64;  // columns; lanes of a tile are 16 KiB

// out[c] = sum over i < n of row(i)[c], for c < columns, row(i) a pointer to contiguous
// columns. `flat` says that row(i) = row(0) + i * columns: then lanes and elements are one
// long vector, and a few columns cost no more than many.
template <class Row>
void sum_columns(std::int64_t n, std::int64_t columns, bool flat, Row&& row, float* out,
                 const Contract& contract) {
  const std::int64_t block = sum_block_of(contract, n), lanes = contract.sum_lanes;
  alignas(64) float lane[v1_lanes * sum_columns_tile];
  alignas(64) float level[40 * sum_columns_tile];  // the tree's left siblings
  for (std::int64_t first = 0; first < columns; first += sum_columns_tile) {
    const std::int64_t width = std::min(sum_columns_tile, columns - first);
    const bool whole_rows = flat && width == columns;
    std::int64_t parts = 0;
    for (std::int64_t begin = 0; begin < n; begin += block, ++parts) {
      const std::int64_t end = std::min(n, begin + block);
      const std::int64_t used = std::min(lanes, end - begin);  // the others stay +0
      std::fill(lane, lane + lanes * width, 0.0f);
      for (std::int64_t i = begin; i < end; i += used) {
        const std::int64_t count = std::min(used, end - i);
        if (whole_rows) {
          const float* x = row(i);
          for (std::int64_t j = 0; j < count * width; ++j) lane[j] += x[j];
        } else {
          for (std::int64_t l = 0; l < count; ++l) {
            const float* x = row(i + l) + first;
            float* to = lane + l * width;
            for (std::int64_t c = 0; c < width; ++c) to[c] += x[c];
          }
        }
      }
      for (std::int64_t half = lanes / 2; half >= 1; half /= 2)
        for (std::int64_t j = 0; j < half * width; ++j) lane[j] += lane[j + half * width];
      std::int64_t at = 0;
      for (; (parts >> at) & 1; ++at)
        for (std::int64_t c = 0; c < width; ++c) lane[c] = level[at * sum_columns_tile + c] + lane[c];
      for (std::int64_t c = 0; c < width; ++c) level[at * sum_columns_tile + c] = lane[c];
    }
    bool joined = false;
    if (parts == 0) std::fill(out + first, out + first + width, 0.0f);
    for (std::int64_t at = 0; (parts >> at) != 0; ++at) {
      if (!((parts >> at) & 1)) continue;
      for (std::int64_t c = 0; c < width; ++c)
        out[first + c] = joined ? level[at * sum_columns_tile + c] + out[first + c] : level[at * sum_columns_tile + c];
      joined = true;
    }
  }
}

}  // namespace repdl::cpu
