// Products over images with so few rows that tiles would be mostly empty: depthwise
// convolutions. A thread has some outputs, or an output and chunk, in the order of gemm.hpp.
#pragma once

#include "base/strides.hpp"
#include "conv/images.hpp"
#include "gemm/gemm_run.hpp"
#include "gemm/strided.hpp"

namespace repdl::cuda {

constexpr int direct_threads = 256;

// Term k of a product: the tap of a window, +0 for padding.
template <class T>
__device__ T tap_or_zero(const Images<T>& x, const T* image, int c, int y, int column) {
  const bool inside = static_cast<unsigned>(y) < static_cast<unsigned>(x.height) &&
                      static_cast<unsigned>(column) < static_cast<unsigned>(x.width);
  return inside ? image[(c * x.height + y) * x.width + column] : T(0);
}

// Weights by strides: w[g * group + i * row + k * step].
template <class T>
struct Weights {
  const T* base;
  std::int64_t group, row, step;
};

// How direct_strips divides its work: a thread has outputs of some rows of a group, at a strip of positions, one below
// the other.
struct Strips {
  FastDivmod64 by_width, by_height, by_planes;  // what these count
  FastDivmod64 by_group;                        // the rows of a group
  int width, height, lines;                     // of positions of an image: columns, strips, and rows
  std::int64_t planes, count;                   // of the rows of an image, threads
};

// C[g, i, j] for windows at positions j, k = (c, a, b), in one chunk. Of windows with `columns` taps in a row; 0: any
// number.
template <class T, int rows, int strip, int columns>
__global__ void __launch_bounds__(direct_threads)
    direct_strips(Weights<T> weights, Windows<T> windows, ImageRows<T> c, Gemm gemm, Strips strips) {
  const std::int64_t task = thread_index();
  if (task >= strips.count) return;
  const std::int64_t above = strips.by_width.quotient(task), plane = strips.by_height.quotient(above);
  const std::int64_t n = strips.by_planes.quotient(plane), row = (plane - n * strips.planes) * rows;
  const std::int64_t column = task - above * strips.width, top = (above - plane * strips.height) * strip;
  const int x = static_cast<int>(column), y = static_cast<int>(top);
  const int g = static_cast<int>(strips.by_group.quotient(row)), i = static_cast<int>(row - std::int64_t{g} * gemm.m);
  const WindowShape& window = windows.window;
  const Images<T>& of = windows.x;
  const T* from = of.group(g) + n * of.image;
  const T* w = weights.base + g * weights.group + i * weights.row;
  const int first_x = x * window.stride[1] + window.start[1];
  const int across = columns == 0 ? window.kernel.divisor() : columns;
  int first_y[strip];
#pragma unroll
  for (int s = 0; s < strip; ++s) first_y[s] = (y + s < strips.lines ? y + s : y) * window.stride[0] + window.start[0];
  T sum[rows][strip];
#pragma unroll
  for (int r = 0; r < rows; ++r)
#pragma unroll
    for (int s = 0; s < strip; ++s) sum[r][s] = T(0);
  int a = 0;
  for (int k = 0; k < gemm.k; k += across) {
    int offset[strip];
    bool inside[strip];
#pragma unroll
    for (int s = 0; s < strip; ++s) {
      const int at = first_y[s] + a * window.step[0];
      inside[s] = static_cast<unsigned>(at) < static_cast<unsigned>(of.height);
      offset[s] = at * of.width;
    }
    const auto tap = [&](int b) {
      const int at = first_x + b * window.step[1];
      const bool there = static_cast<unsigned>(at) < static_cast<unsigned>(of.width);
      T value[strip];
#pragma unroll
      for (int s = 0; s < strip; ++s) value[s] = there && inside[s] ? from[offset[s] + at] : T(0);
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const T weight = w[r * weights.row];
#pragma unroll
        for (int s = 0; s < strip; ++s) sum[r][s] = fma(weight, value[s], sum[r][s]);
      }
      w += weights.step;
    };
    if constexpr (columns == 0) {
      for (int b = 0; b < across; ++b) tap(b);
    } else {
#pragma unroll
      for (int b = 0; b < columns; ++b) tap(b);
    }
    if (++a * across < window.taps.divisor()) continue;
    a = 0;
    from += of.height * of.width;
  }
#pragma unroll
  for (int s = 0; s < strip; ++s) {
    if (y + s >= strips.lines) break;
    const std::int64_t to = c.at(n, y + s, x);
#pragma unroll
    for (int r = 0; r < rows; ++r) c.start_of(g)[(i + r) * c.row_stride + to] = c.finish(sum[r][s], g, i + r, 0);
  }
}

// The same for any number of chunks, one thread an output.
template <class T>
__global__ void __launch_bounds__(direct_threads)
    direct_rows(Weights<T> weights, Windows<T> windows, ImageRows<T> c, Gemm gemm) {
  const std::int64_t output = thread_index();
  if (output >= static_cast<std::int64_t>(gemm.batch) * gemm.m * gemm.n) return;
  const int j = static_cast<int>(output % gemm.n), row = static_cast<int>(output / gemm.n);
  const int g = row / gemm.m, i = row % gemm.m;
  const WindowShape& window = windows.window;
  const auto [n, position] = window.area.split(j);
  const auto [y, column] = window.width.split(position);
  const T* image = windows.x.group(g) + n * windows.x.image;
  const int first_y = y * window.stride[0] + window.start[0];
  const int first_x = column * window.stride[1] + window.start[1];
  const T* w = weights.base + g * weights.group + i * weights.row;
  ThreadTree<T> tree;
  T sum = T(0);
  int left = gemm.chunk, tap_c = 0, a = 0, b = 0;
  for (int k = 0; k < gemm.k; ++k, w += weights.step) {
    if (left == 0) {
      tree.push(sum);
      sum = T(0);
      left = gemm.chunk;
    }
    --left;
    sum =
        fma(*w, tap_or_zero(windows.x, image, tap_c, first_y + a * window.step[0], first_x + b * window.step[1]), sum);
    if (++b < window.kernel.divisor()) continue;
    b = 0;
    if (++a * window.kernel.divisor() < window.taps.divisor()) continue;
    a = 0;
    ++tap_c;
  }
  if (gemm.k > gemm.chunk) {
    tree.push(sum);
    sum = tree.result();
  }
  c.start_of(g)[i * c.row_stride + c.column(j)] = c.finish(sum, g, i, j);
}

// splits[chunk, g, i, j], or C where there is one chunk, for taps j, k = positions (n, y, x).
template <class T>
__global__ void __launch_bounds__(direct_threads)
    direct_outputs(Channels<T> channels, WindowTaps<T> taps, Rows<T> c, Gemm gemm, T* splits) {
  const std::int64_t outputs = static_cast<std::int64_t>(gemm.batch) * gemm.m * gemm.n, task = thread_index();
  if (task >= outputs * gemm.splits) return;
  const int split = static_cast<int>(task / outputs), j = static_cast<int>(task % gemm.n);
  const int row = static_cast<int>(task % outputs / gemm.n), g = row / gemm.m, i = row % gemm.m;
  const WindowShape& window = taps.window;
  const auto [tap_c, tap] = window.taps.split(j);
  const auto [a, b] = window.kernel.split(tap);
  const int first_y = a * window.step[0] + window.start[0], first_x = b * window.step[1] + window.start[1];
  const int begin = split * gemm.split_k;
  auto [n, position] = window.area.split(begin);
  auto [y, x] = window.width.split(position);
  T sum = T(0);
  for (int k = 0; k < gemm.split_k && begin + k < gemm.k; ++k) {
    const T* image = taps.x.group(g) + n * taps.x.image;
    const T* grad = channels.x.group(g) + n * channels.x.image +
                    (static_cast<std::int64_t>(i) * channels.x.height + y) * channels.x.width + x;
    sum = fma(*grad, tap_or_zero(taps.x, image, tap_c, first_y + y * window.stride[0], first_x + x * window.stride[1]),
              sum);
    if (++x < window.width.divisor()) continue;
    x = 0;
    if (++y * window.width.divisor() < window.area.divisor()) continue;
    y = 0;
    ++n;
  }
  if (gemm.splits > 1)
    splits[task] = sum;
  else
    c.start_of(g)[i * c.row_stride + j] = c.finish(sum, g, i, j);
}

constexpr int max_direct_rows = 4;

template <class T, int rows, int strip>
void run_direct_strips(const char* op, const Gemm& gemm, const Weights<T>& w, const Windows<T>& x,
                       const ImageRows<T>& c, const Stream& stream) {
  const WindowShape& window = x.window;
  Strips strips = {};
  strips.by_group = FastDivmod64(gemm.m);
  strips.width = window.width.divisor(), strips.lines = window.area.divisor() / strips.width;
  strips.height = static_cast<int>(ceil_div(strips.lines, strip));
  strips.planes = std::int64_t{gemm.batch} * gemm.m / rows;
  strips.by_width = FastDivmod64(strips.width), strips.by_height = FastDivmod64(strips.height);
  strips.by_planes = FastDivmod64(strips.planes);
  strips.count = gemm.n / window.area.divisor() * strips.planes * strips.height * strips.width;
  const auto kernel =
      window.kernel.divisor() == 3 ? direct_strips<T, rows, strip, 3> : direct_strips<T, rows, strip, 0>;
  launch(op, kernel, {ceil_div(strips.count, direct_threads)}, direct_threads, 0, stream, w, x, c, gemm, strips);
}

template <class T>
void run_direct_rows(const char* op, const Gemm& gemm, const Weights<T>& w, const Windows<T>& x, const ImageRows<T>& c,
                     const Stream& stream) {
  if (gemm.k <= gemm.chunk) {
    if (gemm.m == 4) return run_direct_strips<T, 4, 2>(op, gemm, w, x, c, stream);
    if (gemm.m == 2) return run_direct_strips<T, 2, 4>(op, gemm, w, x, c, stream);
    return run_direct_strips<T, 1, 4>(op, gemm, w, x, c, stream);
  }
  const std::int64_t outputs = std::int64_t{gemm.batch} * gemm.m * gemm.n;
  launch(op, direct_rows<T>, {ceil_div(outputs, direct_threads)}, direct_threads, 0, stream, w, x, c, gemm);
}

// Every chunk a split; `splits` has gemm.splits elements for each output.
inline Gemm direct_outputs_gemm(Gemm gemm) {
  gemm.split_k = gemm.chunk;
  gemm.splits = static_cast<int>(std::max<std::int64_t>(ceil_div(gemm.k, gemm.chunk), 1));
  return gemm;
}
template <class T>
void run_direct_outputs(const char* op, const Gemm& gemm, const Channels<T>& grad, const WindowTaps<T>& x,
                        const Rows<T>& c, T* splits, const Stream& stream) {
  const std::int64_t tasks = std::int64_t{gemm.batch} * gemm.m * gemm.n * gemm.splits;
  launch(op, direct_outputs<T>, {ceil_div(tasks, direct_threads)}, direct_threads, 0, stream, grad, x, c, gemm, splits);
  run_join(op, gemm, splits, c, stream);
}

}  // namespace repdl::cuda
