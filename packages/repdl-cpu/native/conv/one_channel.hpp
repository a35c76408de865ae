// Products with one channel and few terms, such as those of a depthwise convolution: vectors of
// positions, as many at a time as there are chains in flight.
//
//   for y < rows, x < columns:  out[y, x] = dot over k of weight[k] and image[offset[k] + y * row_step + x], plus bias
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "conv/padded_image.hpp"
#include "base/routes.hpp"

namespace repdl::cpu {

constexpr int max_chains = 8;

// V vectors of one row, of which `columns` positions exist; whole vectors are read.
template <int V>
void one_channel_tile(const float* weight, const float* image, const std::int64_t* offset, std::int64_t terms,
                      const float* bias, std::int64_t columns, float* out) {
  REPDL_ROUTE("one channel", V);
  Vec chain[V];
  for (Vec& x : chain) x = Vec::zero();
  for (std::int64_t k = 0; k < terms; ++k) {
    const Vec w = Vec::set1(weight[k]);
    const float* from = image + offset[k];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) chain[v] = fma(w, Vec::load(from + v * Vec::width), chain[v]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    const Vec x = canonical(bias ? chain[v] + Vec::set1(*bias) : chain[v]);
    if (v < V - 1 || columns == V * Vec::width)
      x.store(out + v * Vec::width);
    else
      x.store(out + v * Vec::width, static_cast<int>(columns - v * Vec::width));
  }
}

template <int... V>
constexpr auto one_channel_tiles(std::integer_sequence<int, V...>) {
  return std::array{&one_channel_tile<V + 1>...};
}

inline void one_channel(const float* weight, const float* image, const std::int64_t* offset, std::int64_t terms,
                        const float* bias, const Grid& grid, float* out) {
  constexpr auto tiles = one_channel_tiles(std::make_integer_sequence<int, max_chains>{});
  const std::int64_t vectors = (grid.columns + Vec::width - 1) / Vec::width,
                     pieces = (vectors + max_chains - 1) / max_chains;
  const std::int64_t step = (vectors + pieces - 1) / pieces * Vec::width;
  for (std::int64_t x = 0; x < grid.columns; x += step) {
    if (x > 0) REPDL_ROUTE("one channel: several pieces of a row");
    const std::int64_t columns = std::min(step, grid.columns - x);
    const auto tile = tiles[static_cast<std::size_t>((columns - 1) / Vec::width)];
    for (std::int64_t y = 0; y < grid.rows; ++y)
      tile(weight, image + y * grid.row_step + x, offset, terms, bias, columns, out + y * grid.columns + x);
  }
}

}  // namespace repdl::cpu
