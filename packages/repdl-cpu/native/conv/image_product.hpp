// The product that conv2d and its input gradient are: weights times images.
//
//   out[n, j, p] = dot over k of W[j, k] and frame_n[offset[k] + position(p)], plus bias[j]
//
// The matrix frame_n[offset[k] + position(p)] is not stored. With enough channels j they lie
// along the vectors, and the positions are read where they are in the frame; with few channels
// the positions lie along the vectors, in place where rows of them fill whole vectors, packed
// panel by panel where they do not.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "conv/conv2d.hpp"
#include "conv/padded_image.hpp"
#include "gemm/gemm.hpp"
#include "conv/one_channel.hpp"

namespace repdl::cpu {

// B[k, p] = images[offset[k] + position(p)], p contiguous in a panel row; after the positions
// of one image come those of the next, image_step further.
struct ImagePacker {
  const float* images;
  std::int64_t image_step;
  const std::int64_t* offset;
  Grid grid;

  static constexpr bool reads_along_panels() { return true; }

  void pack(std::int64_t first, std::int64_t count, int width, std::int64_t k0, std::int64_t kc, float* dst) const {
    struct Run {
      std::int64_t source;
      int at, length;
    };
    Run runs[4 * 64];
    int n_runs = 0;
    for (std::int64_t j = first; j < first + count;) {
      const std::int64_t n = j / grid.size(), p = j % grid.size();
      const std::int64_t y = p / grid.columns, x = p % grid.columns;
      const std::int64_t length = std::min(grid.columns - x, first + count - j);
      runs[n_runs++] = {n * image_step + y * grid.row_step + x, static_cast<int>(j - first), static_cast<int>(length)};
      j += length;
    }
    for (std::int64_t k = 0; k < kc; ++k) {
      float* row = dst + k * width;
      const float* src = images + offset[k0 + k];
      for (int r = 0; r < n_runs; ++r) {
        const float* from = src + runs[r].source;
        float* to = row + runs[r].at;
        const int length = runs[r].length;
        int i = 0;
        for (; i + Vec::width <= length; i += Vec::width) Vec::load(from + i).store(to + i);
        if (i == length) continue;
        const Vec rest = Vec::load(from + i, length - i);
        if (runs[r].at + i + Vec::width <= width)
          rest.store(to + i);  // what is written too far is the place of the next runs
        else
          rest.store(to + i, length - i);
      }
      for (std::int64_t i = count; i < width; ++i) row[i] = 0.0f;
    }
  }
};

class ImageProduct {
 public:
  // m channels j; one offset for each k; `taps` of them in a row belong to one channel of the image.
  ImageProduct(const Geometry& g, std::int64_t m, PaddedImage frame, Grid grid, std::vector<std::int64_t> offset,
               std::int64_t taps, std::int64_t chunk)
      : g_(g), m_(m), terms_(static_cast<std::int64_t>(offset.size())), frame_(std::move(frame)), grid_(grid),
        offset_(std::move(offset)), chunk_(chunk) {
    offset_.resize(offset_.size() + prefetch_ahead);
    // Rows that follow one another without a gap are one run.
    if (grid_.row_step == grid_.columns) grid_ = Grid{1, grid_.size(), 0};
    // Vectors of each layout that a position of the product takes, times their width.
    const auto whole = [](std::int64_t n) {
      return static_cast<double>((n + Vec::width - 1) / Vec::width * Vec::width);
    };
    const double rows = static_cast<double>(m),
                 channels = grid_.columns >= few_positions ? whole(m) * small_tiles : 1e9;
    const double in_place = rows * whole(grid_.columns) / static_cast<double>(grid_.columns), packed = rows + 24;
    layout_ = channels <= std::min(in_place, packed) ? channels_first
              : in_place <= packed                   ? positions_in_place
                                                     : positions_packed;
    if (layout_ == channels_first) {
      const std::int64_t panels = (grid_.columns + max_rows - 1) / max_rows;
      const int width = static_cast<int>((grid_.columns + panels - 1) / panels);
      const std::int64_t read = std::min(terms_, max_piece) / std::max<std::int64_t>(taps, 1) * width;
      tile_ = Tiling::of_panels(width, m_, terms_, read);
    } else {
      tile_ = Tiling(m_, std::max(grid_.size(), std::min(enough, g.n * grid_.size())), terms_,
                     layout_ == positions_in_place ? grid_.columns : 0);
    }
    one_channel_ = m_ == 1 && layout_ == positions_in_place && (chunk == 0 || terms_ <= chunk);
    // In place, whole vectors are read: past the end of an image that is no frame too.
    framed_ = !frame_.is_image() || (layout_ == positions_in_place && grid_.columns % Vec::width != 0);
    weight_floats_ = Prepacked::floats(m_, terms_, panel_width());
    storage_ = allocate(g.groups * weight_floats_);
  }

  // The weights of the next group, element (j, k).
  template <class Packer>
  void add_weights(const Packer& packer) {
    float* place = storage_.get() + static_cast<std::int64_t>(weights_.size()) * weight_floats_;
    weights_.emplace_back(packer, m_, terms_, chunk_, panel_width(), place);
  }

  // Products of every image with the weights of every group. images(n, group) is the first
  // channel of an image, image_stride further is the next image's. output(n, count, group)
  // says where channels (rows) and positions (columns) of `count` images go; done(n, count,
  // group) is called when they are there.
  template <class Images, class Place, class Done>
  void run(int threads, std::int64_t image_stride, const Images& images, const Place& output, const Done& done) const {
    // Images make up one product until it has enough columns for whole tiles; products are as many
    // as all threads share evenly, with as many images each.
    const std::int64_t together = std::max<std::int64_t>(1, enough / std::max<std::int64_t>(1, grid_.size()));
    const std::int64_t sharing = (threads + g_.groups - 1) / g_.groups, needed = (g_.n + together - 1) / together;
    const std::int64_t runs = std::min((needed + sharing - 1) / sharing * sharing, g_.n);
    const std::int64_t work = std::max<std::int64_t>(1, m_ * terms_ * grid_.size() * (g_.n / runs));
    parallel_for(runs * g_.groups, std::max<std::int64_t>(1, (1 << 17) / work), threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t run = i / g_.groups, n = g_.n * run / runs, group = i % g_.groups;
                     const std::int64_t count = g_.n * (run + 1) / runs - n;
                     product(group, images(n, group), image_stride, count, output(n, count, group));
                     done(n, count, group);
                   }
                 });
  }

 private:
  static constexpr std::int64_t enough = 768;       // positions of one product
  static constexpr std::int64_t few_positions = 4;  // in a row of a tile
  // With 16 registers a tile has few positions: a piece of a line of each channel, which takes
  // longer to fetch than to multiply.
  static constexpr double small_tiles = Vec::registers < 32 ? 1.3 : 1.0;
  enum Layout { channels_first, positions_in_place, positions_packed };  // what lies along the vectors

  int panel_width() const { return layout_ == channels_first ? tile_.nv * Vec::width : tile_.mr; }

  void product(std::int64_t group, const float* images, std::int64_t step, std::int64_t count, Output out) const {
    if (count > 1) REPDL_ROUTE("image product: several images");
    if (!framed_) REPDL_ROUTE("image product: no frame");
    if (framed_) {
      REPDL_ROUTE("image product: frames");
      float* frames = scratch(slot_user, count * frame_.floats());
      for (std::int64_t i = 0; i < count; ++i) frame_.fill(images + i * step, frames + i * frame_.floats());
      images = frames;
      step = frame_.floats();
    }
    const Prepacked& weights = weights_[static_cast<std::size_t>(group)];
    const auto runs = [&](int width, int unit) {
      return RunOperand{images, offset_.data(), grid_.columns, width, unit, grid_.rows, step, grid_.row_step};
    };
    if (layout_ == positions_packed) {
      REPDL_ROUTE("image product: positions packed");
      gemm(m_, count * grid_.size(), terms_, chunk_, weights, ImagePacker{images, step, offset_.data(), grid_}, out,
           tile_);
    } else if (one_channel_) {
      REPDL_ROUTE("image product: one channel");
      for (std::int64_t i = 0; i < count; ++i)
        one_channel(weights.block(0, 0, 0), images + i * step, offset_.data(), terms_, out.row_bias, grid_,
                    out.at(0, i * grid_.size()));
    } else if (layout_ == positions_in_place) {
      REPDL_ROUTE("image product: positions in place");
      const RunOperand positions = runs(tile_.nv * Vec::width, Vec::width);
      gemm(m_, count * grid_.rows * positions.panels() * positions.width, terms_, chunk_, weights, positions, out,
           tile_);
    } else {
      REPDL_ROUTE("image product: channels first");
      const RunOperand positions = runs(tile_.mr, 1);
      out.transposed = true;
      std::swap(out.row_bias, out.column_bias);
      gemm(count * grid_.rows * positions.panels() * positions.width, m_, terms_, chunk_, positions, weights, out,
           tile_);
    }
  }

  const Geometry& g_;
  std::int64_t m_, terms_;
  PaddedImage frame_;
  Grid grid_;
  std::vector<std::int64_t> offset_;
  std::int64_t chunk_;
  Layout layout_;
  bool one_channel_;
  bool framed_;
  Tiling tile_;
  std::int64_t weight_floats_ = 0;
  Storage storage_;
  std::vector<Prepacked> weights_;
};

}  // namespace repdl::cpu
