// The weight gradient of conv2d (conv2d.md).
//
//   for o < O, j < C * KH * KW:  (N, O, P), (N, C, H, W) -> (O, C, KH, KW)
//     dW[o, j] = dot over k = (n, p) of G[o, k] and X[k, j]
//
// Images are turned to (H, W, C) first. The columns j may come in any order, since only k
// is ordered: in the order (kh, kw, c) a row of X is a few contiguous runs of an image.
#include <algorithm>
#include <vector>

#include "chunk_tree.hpp"
#include "conv2d.hpp"
#include "frame.hpp"
#include "gemm.hpp"

namespace repdl::cpu {
namespace {

// dst (pixels, pitch) = src (C, pixels), channels `area` apart; pack_slack floats after dst may be written.
void channels_last(const float* src, std::int64_t channels, std::int64_t area, std::int64_t pixels, std::int64_t pitch,
                   float* dst) {
  constexpr std::int64_t step = 256;  // long enough for sequential reads, short enough for the cache
  for (std::int64_t p = 0; p < pixels; p += step)
    StridedPacker::transpose_pack(src + p, area, channels, static_cast<int>(pitch), std::min(step, pixels - p),
                                  dst + p * pitch);
}

// Images (H, W, C) of one group inside frames of zeros, one after the other. Where a kernel
// has one row or column, the frame holds only those that the stride leaves.
struct Frames {
  std::int64_t channels, pitch;  // floats of a pixel, those between pixels
  Axis rows, columns;
  std::int64_t step_h, step_w;  // from one position to the next, in rows and columns of the frame
  const float* data = nullptr;

  // Pixels whose distance is a large power of two would share few sets of a cache.
  Frames(const Geometry& g, std::int64_t c)
      : channels(c), pitch(c % 256 == 0 ? c + 16 : c),
        rows(g.h, g.pad_h, g.h + 2 * g.pad_h, g.kh == 1 ? g.stride_h : 1),
        columns(g.w, g.pad_w, g.w + 2 * g.pad_w, g.kw == 1 ? g.stride_w : 1), step_h(g.kh == 1 ? 1 : g.stride_h),
        step_w(g.kw == 1 ? 1 : g.stride_w) {}

  std::int64_t line() const { return columns.total() * pitch; }
  std::int64_t floats() const { return rows.total() * line(); }

  // The floats after a frame may be written too: pack_slack of them.
  void fill(const float* image, std::int64_t h, std::int64_t w, float* dst) const {
    if (rows.is_image() && columns.is_image()) return channels_last(image, channels, h * w, h * w, pitch, dst);
    rows.for_each_run([&](std::int64_t first, std::int64_t count, std::int64_t y) {
      if (y < 0) std::fill(dst + first * line(), dst + (first + count) * line(), 0.0f);
      if (y < 0 || count == 0) return;
      const std::int64_t at_once = rows.stride() == 1 ? count : 1;
      float* turned = scratch(slot_user, at_once * w * pitch + pack_slack);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t ready = i % at_once;
        if (ready == 0) channels_last(image + (y + i * rows.stride()) * w, channels, h * w, at_once * w, pitch, turned);
        float* to = dst + (first + i) * line();
        columns.for_each_run([&](std::int64_t place, std::int64_t pixels, std::int64_t x) {
          const float* from = turned + (ready * w + x) * pitch;
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
    std::vector<std::int64_t> result;
    result.reserve(static_cast<std::size_t>(g.n * g.oh * g.ow + prefetch_ahead));
    for (std::int64_t n = 0; n < g.n; ++n)
      for (std::int64_t y = 0; y < g.oh; ++y)
        for (std::int64_t x = 0; x < g.ow; ++x) result.push_back(n * floats() + y * step_h * line() + x * step_w * pitch);
    result.resize(result.size() + prefetch_ahead);
    return result;
  }

  // Columns j = (kh, kw, c): runs of contiguous (kw, c), or c where pixels are apart.
  RunOperand columns_of(const Geometry& g, const std::int64_t* offset, int width) const {
    const std::int64_t row = g.dilation_h * line();
    if (g.dilation_w == 1 && pitch == channels) return {data, offset, g.kw * channels, width, Vec::width, 1, row, 0};
    return {data, offset, channels, width, Vec::width, g.kw, row, g.dilation_w * pitch};
  }
};

// Those columns packed, for runs that are much shorter than vectors.
struct RunPacker {
  RunOperand runs;  // with panels as long as the runs

  static constexpr bool reads_along_panels() { return false; }

  void pack(std::int64_t first, std::int64_t count, int width, std::int64_t k0, std::int64_t kc, float* dst) const {
    struct Piece {
      const float* source;
      std::int64_t at, count;
    };
    Piece pieces[4 * 64];
    int n_pieces = 0;
    for (std::int64_t j = first; j < first + count;) {
      const std::int64_t inside = j % runs.length, n = std::min(runs.length - inside, first + count - j);
      pieces[n_pieces++] = {runs.at(j / runs.length) + inside, j - first, n};
      j += n;
    }
    // Columns that are no outputs: the end of the last vector holds anything, the rest zeros.
    const std::int64_t end = pieces[n_pieces - 1].count + Vec::width - 1;
    const std::int64_t clear = pieces[n_pieces - 1].at + end / Vec::width * Vec::width;
    for (std::int64_t k = 0; k < kc; ++k, dst += width) {
      for (int p = 0; p < n_pieces; ++p) {
        const float* from = pieces[p].source + runs.offset[k0 + k];
        float* to = dst + pieces[p].at;
        // Whole vectors: what is written too far is the next piece's place.
        for (std::int64_t i = 0; i < pieces[p].count; i += Vec::width) Vec::load(from + i).store(to + i);
      }
      for (std::int64_t j = clear; j < width; j += Vec::width) Vec::zero().store(dst + j);
    }
  }
};

// A[o, k] = grad[n, o, p] with k = (n, p); and B likewise where the kernel is one pixel.
struct PositionsPacker {
  const float* images;  // of the group, first image
  std::int64_t image_stride, positions;

  static constexpr bool reads_along_panels() { return false; }

  void pack(std::int64_t first, std::int64_t count, int width, std::int64_t k0, std::int64_t kc, float* dst) const {
    for (std::int64_t k = k0; k < k0 + kc;) {
      const std::int64_t n = k / positions, p = k % positions;
      const std::int64_t length = std::min(positions - p, k0 + kc - k);
      const float* src = images + n * image_stride + first * positions + p;
      StridedPacker::transpose_pack(src, positions, count, width, length, dst + (k - k0) * width);
      k += length;
    }
  }
};

// Rows of C in the order (kh, kw, c), back to (c, kh, kw).
void reorder(const float* rows, std::int64_t count, const Geometry& g, float* out) {
  const std::int64_t c = g.group_c(), taps = g.kh * g.kw;
  float* turned = scratch(slot_user + 1, c * taps + pack_slack);
  for (std::int64_t o = 0; o < count; ++o) {
    StridedPacker::transpose_pack(rows + o * c * taps, c, taps, static_cast<int>(taps), c, turned);
    std::copy(turned, turned + c * taps, out + o * c * taps);
  }
}

// One channel a group, one filter a channel: vectors of channels, T taps at a time.
//   dW[c, t] = dot over (n, y, x) of G[n, y, x, c] and X[n, y + kh, x + kw, c]
template <int T>
void depthwise_taps(const Geometry& g, const Frames& frames, const float* grad, std::int64_t c,
                    const std::int64_t* offset, std::int64_t chunk, float* out, std::int64_t out_stride) {
  const std::int64_t line = frames.step_h * frames.line(), step = frames.step_w * frames.pitch;
  ChunkTree<T> tree;
  Vec acc[T];
  for (Vec& chain : acc) chain = Vec::zero();
  std::int64_t left = chunk, todo = g.n * g.oh * g.ow;
  for (std::int64_t n = 0; n < g.n; ++n)
    for (std::int64_t y = 0; y < g.oh; ++y) {
      const float* x = frames.data + n * frames.floats() + y * line + c;
      for (std::int64_t i = 0; i < g.ow;) {
        const std::int64_t end = std::min(g.ow, i + left), count = end - i;
        for (; i < end; ++i, x += step, grad += g.c) {
          const Vec value = Vec::load(grad + c);
#pragma GCC unroll 9
          for (int t = 0; t < T; ++t) acc[t] = fma(value, Vec::load(x + offset[t]), acc[t]);
        }
        left -= count;
        todo -= count;
        if (left == 0 && todo > 0) {
          tree.push(acc);
          for (Vec& chain : acc) chain = Vec::zero();
          left = chunk;
        }
      }
    }
  tree.finish(acc);
  alignas(64) float lane[Vec::width];
  for (int t = 0; t < T; ++t) {
    canonical(acc[t]).store(lane);
    for (int i = 0; i < Vec::width; ++i) out[(c + i) * out_stride + t] = lane[i];
  }
}

void depthwise_grad_weight(const float* grad, const float* input, float* output, const Geometry& g, std::int64_t chunk,
                           int threads) {
  const std::int64_t taps = g.kh * g.kw, positions = g.oh * g.ow;
  if (!chunk) chunk = std::max<std::int64_t>(g.n * positions, 1);
  Frames frames(g, g.c);
  const Storage images = allocate(g.n * frames.floats() + pack_slack), grads = allocate(g.n * positions * g.c + pack_slack);
  frames.data = images.get();
  // Image by image, in ascending order: the spill of one is the start of the next.
  parallel_for(1, 1, 1, [&](std::int64_t, std::int64_t) {
    for (std::int64_t n = 0; n < g.n; ++n) {
      frames.fill(input + n * g.c * g.h * g.w, g.h, g.w, images.get() + n * frames.floats());
      channels_last(grad + n * g.c * positions, g.c, positions, positions, g.c, grads.get() + n * positions * g.c);
    }
  });
  std::vector<std::int64_t> offset;
  for (std::int64_t kh = 0; kh < g.kh; ++kh)
    for (std::int64_t kw = 0; kw < g.kw; ++kw)
      offset.push_back(kh * g.dilation_h * frames.line() + kw * g.dilation_w * frames.pitch);
  const std::int64_t blocks = (g.c + Vec::width - 1) / Vec::width;
  parallel_for(blocks, 1, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t c = std::min(block * Vec::width, g.c - Vec::width);
      std::int64_t t = 0;
      const auto run = [&](auto kernel, std::int64_t count) {
        for (; t + count <= taps; t += count)
          kernel(g, frames, grads.get(), c, offset.data() + t, chunk, output + t, taps);
      };
      run(depthwise_taps<9>, 9);
      run(depthwise_taps<5>, 5);
      run(depthwise_taps<1>, 1);
    }
  });
}

}  // namespace

void conv2d_grad_weight(const float* grad, const float* input, float* output, const Geometry& g, std::int64_t chunk,
                        int threads) {
  const std::int64_t positions = g.oh * g.ow, K = g.n * positions, m = g.group_o(), c = g.group_c();
  const std::int64_t columns = c * g.kh * g.kw;
  if (g.o == 0 || columns == 0) return;
  if (c == 1 && m == 1 && g.c >= Vec::width && K > 0)
    return depthwise_grad_weight(grad, input, output, g, chunk, threads);

  // Pixels of a kernel of one are packed from where they lie.
  const bool direct = g.kh == 1 && g.kw == 1 && g.stride_h == 1 && g.stride_w == 1 && g.pad_h == 0 && g.pad_w == 0;
  Frames shape(g, c);
  const std::int64_t of_group = g.n * shape.floats() + Frame::slack;
  const Storage storage = allocate(direct ? 0 : g.groups * of_group);
  const std::vector<std::int64_t> offset = direct ? std::vector<std::int64_t>() : shape.offsets(g);
  // Image by image, in ascending order: the spill of one is the start of the next.
  if (!direct)
    parallel_for(g.groups, 1, threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t group = begin; group < end; ++group)
        for (std::int64_t n = 0; n < g.n; ++n)
          shape.fill(input + (n * g.groups + group) * c * g.h * g.w, g.h, g.w,
                     storage.get() + group * of_group + n * shape.floats());
    });

  // Threads take groups, and slices of the outputs of a group where there are few.
  const std::int64_t slices = std::max<std::int64_t>(1, std::min<std::int64_t>(m / max_rows, threads / g.groups));
  parallel_for(g.groups * slices, 1, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t group = i / slices, slice = i % slices;
      const std::int64_t first = m * slice / slices, rows = m * (slice + 1) / slices - first;
      if (rows == 0) continue;
      const PositionsPacker pack_a{grad + (group * m + first) * positions, g.o * positions, positions};
      float* out = output + (group * m + first) * columns;
      if (direct) {
        const PositionsPacker pack_b{input + group * c * positions, g.c * positions, positions};
        gemm(rows, columns, K, chunk, pack_a, pack_b, Output{out, columns}, Tiling(rows, columns, K));
        continue;
      }
      Frames frames = shape;
      frames.data = storage.get() + group * of_group;
      float* result = g.kh * g.kw == 1 ? out : scratch(slot_user, rows * columns);
      const RunOperand runs = frames.columns_of(g, offset.data(), 1 << 30);
      const std::int64_t vectors = (runs.length + Vec::width - 1) / Vec::width;
      // In place the end of a run's last vector is wasted; packing takes as long as some 24 rows.
      if (vectors * Vec::width * rows <= runs.length * (rows + 24)) {
        const Tiling tile(rows, columns, K, runs.length);
        const RunOperand in_place = frames.columns_of(g, offset.data(), tile.nv * Vec::width);
        gemm(rows, columns / runs.length * in_place.panels() * in_place.width, K, chunk, pack_a, in_place,
             Output{result, columns}, tile);
      } else {
        gemm(rows, columns, K, chunk, pack_a, RunPacker{runs}, Output{result, columns}, Tiling(rows, columns, K));
      }
      if (result != out) reorder(result, rows, g, out);
    }
  });
}

}  // namespace repdl::cpu
