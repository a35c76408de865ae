// The product that conv2d and its input gradient are: weights times images.
//
//   out[n, j, p] = dot over k of W[j, k] and image_n[offset[k] + position(p)], plus bias[j]
//
// The matrix image_n[offset[k] + position(p)] is not stored: it is read in place or packed panel by
// panel (image_plan.hpp).
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/scratch.hpp"
#include "base/threads.hpp"
#include "conv/image_plan.hpp"
#include "conv/one_channel.hpp"
#include "conv/padded_image.hpp"
#include "gemm/gemm.hpp"

namespace repdl::cpu {

// B[k, p] = images[offset[k] + position(p)], p contiguous in a panel row; after the positions
// of one image come those of the next, image_step further.
struct ImagePacker {
  const float* images;
  std::int64_t image_step;
  const std::int64_t* offset;
  Grid grid;
  std::int64_t readable;  // floats from `images` on

  static constexpr bool reads_along_panels() { return false; }

  void pack(std::int64_t first, std::int64_t count, int width, std::int64_t k0, std::int64_t kc, float* dst) const {
    Part parts[4 * 64];
    int n_parts = 0;
    const std::int64_t before = first / grid.size() * grid.size();  // positions of whole images
    std::int64_t y = (first - before) / grid.columns, x = first - before - y * grid.columns;
    std::int64_t row = first / grid.size() * image_step + y * grid.row_step;
    for (std::int64_t at = 0; at < count;) {
      const std::int64_t length = std::min(grid.columns - x, count - at);
      for (std::int64_t i = 0; i < length; i += W)
        parts[n_parts++] = {row + x + i, at + i, static_cast<int>(std::min<std::int64_t>(W, length - i))};
      at += length;
      x = 0;
      row += grid.row_step;
      if (++y == grid.rows) {
        y = 0;
        row += image_step - grid.rows * grid.row_step;
      }
    }
    const std::int64_t* from = offset + k0;
    const std::int64_t end = *std::max_element(from, from + kc) + parts[n_parts - 1].source + W;
    if (end > readable || count < width)
      copy_exactly(parts, n_parts, from, count, kc, width, dst);
    else if (n_parts == 2)
      copy<2>(parts, n_parts, from, kc, width, dst);
    else if (n_parts == 3)
      copy<3>(parts, n_parts, from, kc, width, dst);
    else if (n_parts == 4)
      copy<4>(parts, n_parts, from, kc, width, dst);
    else
      copy<0>(parts, n_parts, from, kc, width, dst);
  }

 private:
  static constexpr int W = Vec::width;

  struct Part {  // of a row of positions, a vector at most
    std::int64_t source, at;
    int length;
  };

  // Whole vectors of `n` parts, 0: of as many as there are. What sticks out of a part is overwritten by the next part,
  // row or panel; behind the last one there is room.
  template <int n>
  void copy(const Part* given, int n_given, const std::int64_t* from, std::int64_t kc, int width, float* dst) const {
    std::int64_t source[4 * 64], at[4 * 64];  // copies, which no store can reach: they stay in registers
    const int parts = n ? n : n_given;
    for (int r = 0; r < parts; ++r) {
      source[r] = given[r].source;
      at[r] = given[r].at;
    }
    for (std::int64_t k = 0; k < kc; ++k)
#pragma GCC unroll 4
      for (int r = 0; r < parts; ++r) Vec::load(images + from[k] + source[r]).store(dst + k * width + at[r]);
  }

  // At the end of the images, and panels that are not full: nothing but the positions is read.
  void copy_exactly(const Part* parts, int n_parts, const std::int64_t* from, std::int64_t count, std::int64_t kc,
                    int width, float* dst) const {
    for (std::int64_t k = 0; k < kc; ++k, dst += width) {
      for (int r = 0; r < n_parts; ++r)
        Vec::load(images + from[k] + parts[r].source, parts[r].length).store(dst + parts[r].at, parts[r].length);
      std::fill(dst + count, dst + width, 0.0f);
    }
  }
};

class ImageProduct {
 public:
  // m channels j; one offset for each k; `taps` of them in a row belong to one channel of the image.
  ImageProduct(const Geometry& g, std::int64_t m, PaddedImage image, Grid grid, std::vector<std::int64_t> offset,
               std::int64_t taps, std::int64_t chunk)
      : g_(g), m_(m), terms_(static_cast<std::int64_t>(offset.size())), image_(std::move(image)), grid_(joined(grid)),
        offset_(std::move(offset)), chunk_(chunk), plan_(g, m, terms_, taps, image_, grid_, chunk),
        weight_floats_(Prepacked::floats(m, terms_, plan_.panel_width())), packed_(g.groups * weight_floats_) {
    offset_.resize(offset_.size() + prefetch_ahead);
  }

  // The weights of the next group, element (j, k).
  template <class Packer>
  void add_weights(const Packer& packer) {
    float* to = packed_.data() + static_cast<std::int64_t>(weights_.size()) * weight_floats_;
    weights_.emplace_back(packer, m_, terms_, chunk_, plan_.panel_width(), to);
  }

  // Products of every image with the weights of every group. images(n, group) is the first
  // channel of an image, image_stride further is the next image's. body(n, count, group, compute)
  // calls compute(out) once, out being where channels (rows) and positions (columns) of `count` images go.
  template <class Images, class Body>
  void run(int threads, std::int64_t image_stride, const Images& images, const Body& body) const {
    // Images make up one product until it has enough columns for whole tiles; products are as many
    // as all threads share evenly, with as many images each.
    const std::int64_t batch = std::max<std::int64_t>(1, ImagePlan::enough / std::max<std::int64_t>(1, grid_.size()));
    const std::int64_t sharing = (threads + g_.groups - 1) / g_.groups, needed = (g_.n + batch - 1) / batch;
    const std::int64_t runs = std::min((needed + sharing - 1) / sharing * sharing, g_.n);
    const std::int64_t work = std::max<std::int64_t>(1, m_ * terms_ * grid_.size() * (g_.n / runs));
    parallel_for(runs * g_.groups, std::max<std::int64_t>(1, (1 << 17) / work), threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   const std::int64_t most = (g_.n + runs - 1) / runs;  // images of a product
                   const Scratch<float> padded(plan_.padded ? most * image_.floats() : 0);
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t run = i / g_.groups, n = g_.n * run / runs, group = i % g_.groups;
                     const std::int64_t count = g_.n * (run + 1) / runs - n;
                     body(n, count, group, [&](const Output& out) {
                       product(group, images(n, group), image_stride, count, padded.data(), out);
                     });
                   }
                 });
  }

 private:
  // Rows that follow one another without a gap are one run.
  static Grid joined(const Grid& grid) { return grid.row_step == grid.columns ? Grid{1, grid.size(), 0} : grid; }

  void product(std::int64_t group, const float* images, std::int64_t step, std::int64_t count, float* padded,
               Output out) const {
    if (count > 1) REPDL_ROUTE("image product: several images");
    if (!plan_.padded) REPDL_ROUTE("image product: not padded");
    if (plan_.padded) {
      REPDL_ROUTE("image product: padded images");
      for (std::int64_t i = 0; i < count; ++i) image_.fill(images + i * step, padded + i * image_.floats());
      images = padded;
      step = image_.floats();
    }
    const std::int64_t readable =
        (count - 1) * step + (plan_.padded ? image_.floats() : image_.channels * image_.area());
    const Prepacked& weights = weights_[static_cast<std::size_t>(group)];
    const Tiling& tile = plan_.tile;
    const RunLayout rows{grid_.columns, grid_.rows, step, grid_.row_step};  // of positions
    switch (plan_.route) {
      case ImageRoute::positions_packed:
        REPDL_ROUTE("image product: positions packed");
        return gemm(m_, count * grid_.size(), terms_, chunk_, weights,
                    ImagePacker{images, step, offset_.data(), grid_, readable}, out, tile);
      case ImageRoute::one_channel:
        REPDL_ROUTE("image product: one channel");
        for (std::int64_t i = 0; i < count; ++i)
          one_channel(weights.block(0, 0, 0), images + i * step, offset_.data(), terms_, out.row_bias, grid_,
                      out.at(0, i * grid_.size()));
        return;
      case ImageRoute::positions_in_place: {
        REPDL_ROUTE("image product: positions in place");
        const RunOperand positions(images, offset_.data(), rows, static_cast<int>(tile.nr()), Vec::width);
        return gemm(m_, positions.extent(count * grid_.rows), terms_, chunk_, weights, positions, out, tile);
      }
      case ImageRoute::channels_first: {
        REPDL_ROUTE("image product: channels first");
        const RunOperand positions(images, offset_.data(), rows, tile.mr, 1);
        out.transposed = true;
        std::swap(out.row_bias, out.column_bias);
        return gemm(positions.extent(count * grid_.rows), m_, terms_, chunk_, positions, weights, out, tile);
      }
    }
  }

  const Geometry& g_;
  std::int64_t m_, terms_;
  PaddedImage image_;
  Grid grid_;
  std::vector<std::int64_t> offset_;
  std::int64_t chunk_;
  ImagePlan plan_;
  std::int64_t weight_floats_;
  Scratch<float> packed_;
  std::vector<Prepacked> weights_;
};

}  // namespace repdl::cpu
