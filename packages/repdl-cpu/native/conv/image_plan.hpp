// How conv2d and its input gradient are computed: which route, and its tiles. No bit depends on it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/tuned.hpp"
#include "conv/padded_image.hpp"
#include "gemm/tiling.hpp"
#include "repdl/shape/convolution.hpp"

namespace repdl::cpu {

enum class ImageRoute {
  channels_first,      // channels along the vectors; positions are read in place
  positions_in_place,  // positions along the vectors, rows of them read in place
  positions_packed,    // the same, where rows of positions would not fill whole vectors
  one_channel,         // positions in place, and nothing that a product would share
};

struct ImagePlan {
  static constexpr std::int64_t enough = tuned(768, 16);  // positions that fill the tiles of one product

  ImageRoute route;
  Tiling tile;
  bool padded;  // images are copied between zeros

  // m channels of weights with `terms` each, `taps` of them in a row of one channel of the image.
  ImagePlan(const Geometry& g, std::int64_t m, std::int64_t terms, std::int64_t taps, const PaddedImage& image,
            const Grid& grid, std::int64_t chunk) {
    // Vectors of each layout that a position of the product takes, times their width.
    const auto whole = [](std::int64_t n) {
      return static_cast<double>((n + Vec::width - 1) / Vec::width * Vec::width);
    };
    const double rows = static_cast<double>(m), filled = whole(grid.columns) / static_cast<double>(grid.columns);
    const double channels = grid.columns >= few_positions ? whole(m) * small_tiles : 1e9;
    const double unpacked = rows * filled * in_place, packed = rows + (few_registers ? 7 * filled : 24);
    const double least = std::min(unpacked, packed);
    route = channels < least || (channels == least && broadcasts_are_fast()) ? ImageRoute::channels_first
            : unpacked > packed                                              ? ImageRoute::positions_packed
            : m == 1 && (chunk == 0 || terms <= chunk)                       ? ImageRoute::one_channel
                                                                             : ImageRoute::positions_in_place;
    const bool vectors_in_place = route == ImageRoute::positions_in_place || route == ImageRoute::one_channel;
    if (route == ImageRoute::channels_first) {
      const std::int64_t panels = (grid.columns + max_rows - 1) / max_rows;
      const int width = static_cast<int>((grid.columns + panels - 1) / panels);
      const std::int64_t read = std::min(terms, max_piece) / std::max<std::int64_t>(taps, 1) * width;
      tile = Tiling::of_panels(width, m, terms, read);
    } else {
      tile = Tiling(m, std::max(grid.size(), std::min(enough, g.n * grid.size())), terms,
                    vectors_in_place ? grid.columns : 0);
    }
    // In place, whole vectors are read: past the end of an image that needs no padding too.
    padded = !image.is_image() || (vectors_in_place && grid.columns % Vec::width != 0);
  }

  // Of the packed weights.
  int panel_width() const { return route == ImageRoute::channels_first ? static_cast<int>(tile.nr()) : tile.mr; }

 private:
  // Channels first broadcasts 14 positions, less than a line of the cache, from each channel. Intel cores (Granite
  // Rapids) wait for these: 256 -> 64 channels at 56^2 take 1.5 times as long as with whole vectors of positions.
  static bool broadcasts_are_fast() {
#if defined(__x86_64__) && defined(__GNUC__)
    static const bool fast = !__builtin_cpu_is("intel");
    return fast;
#else
    return true;
#endif
  }

  static constexpr std::int64_t few_positions = 4;  // in a row of a tile
  // With 16 registers a tile has few positions: a piece of a cache line of each channel, which takes longer to fetch
  // than to multiply. Measured on a Zen 3; for 32 registers on a Zen 4, when packing took longer.
  static constexpr bool few_registers = Vec::registers < 32;
  static constexpr double small_tiles = few_registers ? 1.5 : 1.0, in_place = few_registers ? 1.03 : 1.0;
};

}  // namespace repdl::cpu
