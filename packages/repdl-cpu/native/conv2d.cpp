// conv2d and its input gradient as products of packed matrices (conv2d.md).
//
//   conv2d:      O[n, o, p]  = dot over (c, kh, kw) of W[o, k] and X[n, k, p]
//   grad_input:  dX[n, c, p] = dot over (o, kh, kw) of W[k, c] and G[n, k, p], a stride phase at a time
//
// X[k, p] and G[k, p] are never stored: image, padded with zeros, at offset(k) + position(p).
#include <algorithm>
#include <vector>

#include "conv2d.hpp"
#include "gemm.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t slack = 64;  // floats that a row copy may read or write past its end

// Channels of one image inside a frame of zeros.
struct Padded {
  std::int64_t channels, h, w;          // of the image
  std::int64_t top, left, rows, columns;  // of the frame

  std::int64_t floats() const { return channels * rows * columns + slack; }

  void fill(const float* image, float* dst) const {
    std::fill(dst, dst + floats(), 0.0f);
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < h; ++y) {
        const std::int64_t row = y + top;
        if (row < 0 || row >= rows) continue;
        const std::int64_t from = std::max<std::int64_t>(0, -left), to = std::min(w, columns - left);
        if (to > from)
          std::copy(image + (c * h + y) * w + from, image + (c * h + y) * w + to,
                    dst + (c * rows + row) * columns + left + from);
      }
  }
};

// Positions p = (y, x) of a grid over a padded image: y * row_step + x * column_step.
struct Grid {
  std::int64_t rows, columns, row_step, column_step;
  std::int64_t size() const { return rows * columns; }
};

// B[k, p] = image[offset[k] + position(p)], p contiguous in a panel row; after the positions
// of one image come those of the next, image_stride further.
struct ImagePacker {
  const float* image;
  std::int64_t image_stride;
  const std::int64_t* offset;
  Grid grid;

  static constexpr bool reads_along_panels() { return true; }

  void pack(std::int64_t first, std::int64_t count, int width, std::int64_t k0, std::int64_t kc,
            float* dst) const {
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
      runs[n_runs++] = {n * image_stride + y * grid.row_step + x * grid.column_step, static_cast<int>(j - first),
                        static_cast<int>(length)};
      j += length;
    }
    const std::int64_t step = grid.column_step;
    for (std::int64_t k = 0; k < kc; ++k) {
      float* row = dst + k * width;
      const float* src = image + offset[k0 + k];
      for (int r = 0; r < n_runs; ++r) {
        const float* from = src + runs[r].source;
        float* to = row + runs[r].at;
        const int length = runs[r].length;
        if (step == 1) {
          int i = 0;
          for (; i + Vec::width <= length; i += Vec::width) Vec::load(from + i).store(to + i);
          if (i == length) continue;
          const Vec rest = Vec::load(from + i, length - i);
          if (runs[r].at + i + Vec::width <= width)
            rest.store(to + i);  // what is written too far is the place of the next runs
          else
            rest.store(to + i, length - i);
        } else if (step == 2) {
          int i = 0;
          for (; i + Vec::width <= length; i += Vec::width) load_even(from + 2 * i).store(to + i);
          for (; i < length; ++i) to[i] = from[i * 2];
        } else {
          for (int i = 0; i < length; ++i) to[i] = from[i * step];
        }
      }
      for (std::int64_t i = count; i < width; ++i) row[i] = 0.0f;
    }
  }
};

// Calls body(n, count, group) for groups and runs of `count` images whose positions make up
// one product: enough columns for whole tiles, and enough runs for every thread.
template <class Body>
void for_each_images(const Geometry& g, std::int64_t positions, int threads, const Body& body) {
  const std::int64_t enough = std::max<std::int64_t>(1, 768 / std::max<std::int64_t>(1, positions));
  const std::int64_t share = std::max<std::int64_t>(1, g.n * g.groups / threads);
  const std::int64_t count = std::min({enough, g.n, share}), runs = (g.n + count - 1) / count;
  const std::int64_t work = g.group_o() * g.group_c() * g.kh * g.kw * g.oh * g.ow * count;
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 17) / std::max<std::int64_t>(1, work));
  parallel_for(runs * g.groups, grain, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / g.groups * count;
      body(n, std::min(count, g.n - n), i % g.groups);
    }
  });
}

void conv2d(const float* input, const float* weight, const float* bias, float* output, const Geometry& g,
            std::int64_t chunk, int threads) {
  const std::int64_t K = g.group_c() * g.kh * g.kw, m = g.group_o(), positions = g.oh * g.ow;
  if (g.n == 0 || g.o == 0 || positions == 0) return;
  const Padded frame{g.group_c(), g.h, g.w, g.pad_h, g.pad_w, g.h + 2 * g.pad_h, g.w + 2 * g.pad_w};
  const Grid grid{g.oh, g.ow, g.stride_h * frame.columns, g.stride_w};
  std::vector<std::int64_t> offset;
  for (std::int64_t c = 0; c < g.group_c(); ++c)
    for (std::int64_t kh = 0; kh < g.kh; ++kh)
      for (std::int64_t kw = 0; kw < g.kw; ++kw)
        offset.push_back((c * frame.rows + kh * g.dilation_h) * frame.columns + kw * g.dilation_w);

  const Tiling tile(m, std::max<std::int64_t>(positions, std::min<std::int64_t>(768, g.n * positions)), K);
  const std::int64_t packed = Prepacked::floats(m, K, tile);
  const Storage storage = allocate(g.groups * packed);
  std::vector<Prepacked> a;
  for (std::int64_t group = 0; group < g.groups; ++group)
    a.emplace_back(StridedPacker{weight + group * m * K, K, 1}, m, K, chunk, tile,
                   storage.get() + group * packed);

  const bool in_place = g.kh == 1 && g.kw == 1 && g.stride_h == 1 && g.stride_w == 1 && g.pad_h == 0 && g.pad_w == 0;
  for_each_images(g, positions, threads, [&](std::int64_t n, std::int64_t count, std::int64_t group) {
    const std::int64_t stride = g.c * g.h * g.w;
    const float* image = input + n * stride + group * g.group_c() * g.h * g.w;
    Output out{output + (n * g.o + group * m) * positions, positions};
    out.image = positions;
    out.image_stride = g.o * positions;
    if (bias) out.row_bias = bias + group * m;
    if (in_place) {
      const ImagePacker pack_b{image, stride, offset.data(), Grid{1, positions, 0, 1}};
      gemm(m, count * positions, K, chunk, a[group], pack_b, out, tile);
      return;
    }
    float* padded = scratch(slot_user, count * frame.floats());
    for (std::int64_t i = 0; i < count; ++i) frame.fill(image + i * stride, padded + i * frame.floats());
    const ImagePacker pack_b{padded, frame.floats(), offset.data(), grid};
    gemm(m, count * positions, K, chunk, a[group], pack_b, out, tile);
  });
}

// One side (rows or columns) of a stride phase of the input gradient: the positions
// first, first + stride, ... of the input, and the taps that exist for them.
struct Phase {
  std::int64_t first, count;
  std::vector<std::int64_t> taps;    // kh ascending
  std::vector<std::int64_t> shifts;  // oh of the phase's first position, a tap each

  Phase(std::int64_t phase, std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
        std::int64_t dilation)
      : first(phase), count(phase < size ? (size - phase + stride - 1) / stride : 0) {
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t reach = phase + padding - k * dilation;
      if (reach % stride == 0) {
        taps.push_back(k);
        shifts.push_back(reach / stride);
      }
    }
  }
};

void conv2d_grad_input(const float* grad, const float* weight, float* output, const Geometry& g,
                       std::int64_t chunk, int threads) {
  const std::int64_t m = g.group_c(), area = g.h * g.w;
  if (g.n == 0 || g.c == 0 || area == 0) return;
  for (std::int64_t phase_h = 0; phase_h < std::min(g.stride_h, g.h); ++phase_h)
    for (std::int64_t phase_w = 0; phase_w < std::min(g.stride_w, g.w); ++phase_w) {
      const Phase rows(phase_h, g.h, g.kh, g.stride_h, g.pad_h, g.dilation_h);
      const Phase columns(phase_w, g.w, g.kw, g.stride_w, g.pad_w, g.dilation_w);
      const std::int64_t taps = static_cast<std::int64_t>(rows.taps.size() * columns.taps.size());
      const std::int64_t K = g.group_o() * taps, positions = rows.count * columns.count;

      // grad in a frame that holds every oh, ow that a tap can reach.
      std::int64_t low_h = 0, high_h = g.oh, low_w = 0, high_w = g.ow;
      for (const std::int64_t s : rows.shifts) {
        low_h = std::min(low_h, s);
        high_h = std::max(high_h, s + rows.count);
      }
      for (const std::int64_t s : columns.shifts) {
        low_w = std::min(low_w, s);
        high_w = std::max(high_w, s + columns.count);
      }
      const Padded frame{g.group_o(), g.oh, g.ow, -low_h, -low_w, high_h - low_h, high_w - low_w};
      const Grid grid{rows.count, columns.count, frame.columns, 1};
      std::vector<std::int64_t> offset, tap;  // tap: position of the term's weight in (kh, kw)
      for (std::int64_t o = 0; o < g.group_o(); ++o)
        for (std::size_t i = 0; i < rows.taps.size(); ++i)
          for (std::size_t j = 0; j < columns.taps.size(); ++j) {
            offset.push_back((o * frame.rows + rows.shifts[i] - low_h) * frame.columns + columns.shifts[j] - low_w);
            tap.push_back((o * m * g.kh + rows.taps[i]) * g.kw + columns.taps[j]);
          }

      // A[c, k]: one row of weights a tap, gathered once.
      const Tiling tile(m, std::max<std::int64_t>(positions, std::min<std::int64_t>(768, g.n * positions)), K);
      const std::int64_t packed = Prepacked::floats(m, K, tile);
      const Storage storage = allocate(g.groups * packed);
      struct TapPacker {
        const float* weight;
        const std::int64_t* tap;
        std::int64_t kernel;
        static constexpr bool reads_along_panels() { return false; }
        void pack(std::int64_t first, std::int64_t count, int width, std::int64_t k0, std::int64_t kc,
                  float* dst) const {
          for (std::int64_t k = 0; k < kc; ++k)
            for (std::int64_t i = 0; i < width; ++i)
              dst[k * width + i] = i < count ? weight[tap[k0 + k] + (first + i) * kernel] : 0.0f;
        }
      };
      std::vector<Prepacked> a;
      for (std::int64_t group = 0; group < g.groups; ++group)
        a.emplace_back(TapPacker{weight + group * g.group_o() * m * g.kh * g.kw, tap.data(), g.kh * g.kw}, m, K,
                       chunk, tile, storage.get() + group * packed);

      const bool whole = g.stride_h == 1 && g.stride_w == 1;
      for_each_images(g, positions, threads, [&](std::int64_t n, std::int64_t count, std::int64_t group) {
        float* padded = scratch(slot_user, count * frame.floats());
        for (std::int64_t i = 0; i < count; ++i)
          frame.fill(grad + ((n + i) * g.o + group * g.group_o()) * g.oh * g.ow, padded + i * frame.floats());
        float* image = output + (n * g.c + group * m) * area;
        const ImagePacker pack_b{padded, frame.floats(), offset.data(), grid};
        Output out{whole ? image : scratch(slot_user + 1, count * m * positions), positions};
        out.image = positions;
        out.image_stride = whole ? g.c * area : m * positions;
        gemm(m, count * positions, K, chunk, a[group], pack_b, out, tile);
        if (whole) return;
        for (std::int64_t i = 0; i < count * m; ++i)
          for (std::int64_t y = 0; y < rows.count; ++y)
            for (std::int64_t x = 0; x < columns.count; ++x)
              image[i / m * g.c * area + i % m * area + (rows.first + y * g.stride_h) * g.w + columns.first +
                    x * g.stride_w] = out.data[i * positions + y * columns.count + x];
      });
    }
}

}  // namespace

void bind_conv2d(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> release;
  module.def(
      "conv2d",
      [](Address input, Address weight, Address bias, Address output, const Sizes& sizes, std::int64_t chunk,
         int threads) { conv2d(in(input), in(weight), in(bias), out(output), geometry(sizes), chunk, threads); },
      release);
  module.def(
      "conv2d_grad_weight",
      [](Address grad, Address input, Address output, const Sizes& sizes, std::int64_t chunk, int threads) {
        conv2d_grad_weight(in(grad), in(input), out(output), geometry(sizes), chunk, threads);
      },
      release);
  module.def(
      "conv2d_grad_input",
      [](Address grad, Address weight, Address output, const Sizes& sizes, std::int64_t chunk, int threads) {
        conv2d_grad_input(in(grad), in(weight), out(output), geometry(sizes), chunk, threads);
      },
      release);
}

}  // namespace repdl::cpu
