// Operands and outputs of a product (gemm.hpp) that are images: the convolutions as products.
//
// A window lies at each position of an output image; its taps are elements of an input image
// (channel, kernel row, kernel column), or padding, which is +0. A product has
//
//   Windows      rows: positions (n, i, j)   k: taps (c, a, b)
//   Pixels, TapWindows   the same for windows of few taps (small_windows.hpp)
//   WindowTaps   rows: taps (c, a, b)        k: positions (n, i, j)
//   Channels     rows: channels of an image  k: positions (n, i, j)
//
// and its batch is the groups.
#pragma once

#include "base/divide.hpp"
#include "gemm/gemm.hpp"

namespace repdl::cuda {

// Images (N, groups * channels, height, width), row-major, of which a product sees one group.
template <class T>
struct Images {
  const T* base;
  int channels, height, width;  // channels of a group
  std::int64_t image;           // elements of all groups

  __device__ const T* group(int g) const { return base + static_cast<std::int64_t>(g) * channels * height * width; }
};

// Where taps lie: tap (a, b) of the window at (i, j) is row i * stride[0] + a * step[0] + start[0]
// of the image, and column alike.
struct WindowShape {
  FastDivmod32 area, width;   // of the positions of an image
  FastDivmod32 taps, kernel;  // taps of a channel, taps of a row of it
  int stride[2], step[2], start[2];
};

// Whether windows have one tap, and lie on each element of an image in order.
template <class T>
bool every_pixel(const WindowShape& window, const Images<T>& x) {
  return window.taps.divisor() == 1 && window.stride[0] == 1 && window.stride[1] == 1 && window.start[0] == 0 &&
         window.start[1] == 0 && window.width.divisor() == x.width && window.area.divisor() == x.height * x.width;
}

template <class T>
struct Windows {
  Images<T> x;
  WindowShape window;

  // A thread has one position, and `each` taps side by side of every slice.
  template <class Tiling>
  class Loader {
    static constexpr int each = Tiling::depth * Tiling::tile / Tiling::threads;

   public:
    __device__ Loader(const Windows& windows, Slice<Tiling>* slices, int group, int first_row, int rows, int first_k)
        : x_(windows.x), window_(windows.window), to_(slices) {
      const int t = anew(threadIdx.x), row = t % Tiling::tile;
      first_ = t / Tiling::tile * each;
      k_ = first_k + first_;
      const auto [n, position] = window_.area.split(first_row + row < rows ? first_row + row : rows - 1);
      from_ = x_.group(group) + n * x_.image;
      const auto [i, j] = window_.width.split(position);
      y_ = i * window_.stride[0] + window_.start[0];
      x0_ = j * window_.stride[1] + window_.start[1];
      to_ = to_ + (first_ * Tiling::width + row) * sizeof(T);
    }

    __device__ void load(int stage, int length) {
      const SharedPointer to = to_ + stage * sizeof(Slice<Tiling>);
      auto [c, tap] = window_.taps.split(k_);
      auto [a, b] = window_.kernel.split(tap);
#pragma unroll
      for (int pass = 0; pass < each; ++pass) {
        if (first_ + pass < length) {
          const int y = y_ + a * window_.step[0], x = x0_ + b * window_.step[1];
          const bool inside = static_cast<unsigned>(y) < static_cast<unsigned>(x_.height) &&
                              static_cast<unsigned>(x) < static_cast<unsigned>(x_.width);
          (to + pass * Tiling::width * sizeof(T))
              .template copy_or_zero<sizeof(T)>(inside, from_ + ((c * x_.height + y) * x_.width + x));
        }
        const bool row_ends = ++b == window_.kernel.divisor();
        if (row_ends) b = 0, ++a;
        if (row_ends && a * window_.kernel.divisor() == window_.taps.divisor()) a = 0, ++c;
      }
      k_ += length;
    }

   private:
    const Images<T>& x_;
    const WindowShape& window_;
    const T* from_;     // this thread's image
    SharedPointer to_;  // where its first element goes
    int first_, k_;     // its first k in the slice, and in all
    int y_, x0_;        // where its window starts
  };
};

// The taps of a tile, computed once: where a tap lies from the start of a window.
struct Tap {
  int offset, y, x;
};
template <int tile>
struct TapMemory {
  Tap tap[tile];
};

template <class T>
struct WindowTaps {
  Images<T> x;
  WindowShape window;

  // Eight neighbouring threads have neighbouring positions.
  template <class Tiling>
  class Loader {
    static constexpr int run = 8, row_step = Tiling::threads / run;

   public:
    __device__ Loader(const WindowTaps& taps, Slice<Tiling>* slices, int group, int first_row, int rows, int first_k)
        : x_(taps.x), window_(taps.window), from_(taps.x.group(group)), to_(slices) {
      const int t = anew(threadIdx.x);
      auto& table = shared<TapMemory<Tiling::tile>>().tap;
      __syncthreads();  // nobody reads the tile before
      for (int row = t; row < Tiling::tile; row += Tiling::threads) {
        const auto [c, tap] = window_.taps.split(first_row + row < rows ? first_row + row : rows - 1);
        const auto [a, b] = window_.kernel.split(tap);
        const int y = a * window_.step[0], x = b * window_.step[1];
        table[row] = {(c * x_.height + y) * x_.width + x, y, x};
      }
      __syncthreads();
      k_ = first_k;
      to_ = to_ + (t % run * Tiling::width + t / run) * sizeof(T);
    }

    __device__ void load(int stage, int length) {
      const auto& table = shared<TapMemory<Tiling::tile>>().tap;
      const int t = anew(threadIdx.x), first = t % run, first_row = t / run;
      const SharedPointer to = to_ + stage * sizeof(Slice<Tiling>);
#pragma unroll
      for (int k = 0; k < Tiling::depth; k += run) {
        if (first + k >= length) break;
        const auto [n, position] = window_.area.split(k_ + first + k);
        const T* image = from_ + n * x_.image;
        const auto [i, j] = window_.width.split(position);
        const int y0 = i * window_.stride[0] + window_.start[0], x0 = j * window_.stride[1] + window_.start[1];
#pragma unroll
        for (int row = 0; row < Tiling::tile; row += row_step) {
          const Tap tap = table[first_row + row];
          const bool inside = static_cast<unsigned>(y0 + tap.y) < static_cast<unsigned>(x_.height) &&
                              static_cast<unsigned>(x0 + tap.x) < static_cast<unsigned>(x_.width);
          (to + (k * Tiling::width + row) * sizeof(T))
              .template copy_or_zero<sizeof(T)>(inside, image + (y0 * x_.width + x0 + tap.offset));
        }
      }
      k_ += length;
    }

   private:
    const Images<T>& x_;
    const WindowShape& window_;
    const T* from_;
    SharedPointer to_;  // where this thread's first element goes
    int k_;             // of the slice
  };
};

template <class T>
struct Channels {
  Images<T> x;
  FastDivmod32 area;

  template <class Tiling>
  class Loader {
    static constexpr int run = 8, row_step = Tiling::threads / run;

   public:
    __device__ Loader(const Channels& channels, Slice<Tiling>* slices, int group, int first_row, int rows, int first_k)
        : x_(channels.x), area_(channels.area), to_(slices) {
      const int t = anew(threadIdx.x), row = t / run;
      k_ = first_k;
      rows_ = rows - first_row - row;
      from_ = x_.group(group) + static_cast<std::int64_t>(first_row + row) * area_.divisor();
      to_ = to_ + (t % run * Tiling::width + row) * sizeof(T);
    }

    __device__ void load(int stage, int length) {
      const int first = anew(threadIdx.x) % run;
      const SharedPointer to = to_ + stage * sizeof(Slice<Tiling>);
#pragma unroll
      for (int k = 0; k < Tiling::depth; k += run) {
        const int rows = first + k < length ? rows_ : 0;
        const auto [n, position] = area_.split(k_ + first + k);
        const T* from = from_ + n * x_.image + position;
#pragma unroll
        for (int row = 0; row < Tiling::tile; row += row_step)
          if (row < rows)
            (to + (k * Tiling::width + row) * sizeof(T))
                .template copy_from<sizeof(T)>(from + std::int64_t{area_.divisor()} * row);
      }
      k_ += length;
    }

   private:
    const Images<T>& x_;
    const FastDivmod32& area_;
    const T* from_;     // this thread's first channel
    SharedPointer to_;  // where its first element goes
    int k_, rows_;      // k of the slice, and the channels from the first one on
  };
};

// Outputs: rows are channels of images, columns are positions (n, i, j), which lie at row
// i * stride[0] + start[0] of an image, and column alike. A bias (channels) may be added.
template <class T>
struct ImageRows {
  T* base;
  const T* bias;              // or null
  std::int64_t group, image;  // elements of the channels of one group, and of all
  std::int64_t row_stride;    // elements of a channel
  int channels, width;        // channels of a group; width of an image
  FastDivmod32 area, row;     // positions of an image, and of a row of it
  int stride[2], start[2];
  bool wide;  // vectors of positions are contiguous and aligned

  __device__ T* start_of(int g) const { return base + g * group; }
  __device__ std::int64_t column(int position) const {
    const auto [n, rest] = area.split(position);
    const auto [i, j] = row.split(rest);
    return at(n, i, j);
  }
  __device__ std::int64_t at(std::int64_t n, int i, int j) const {
    return n * image + static_cast<std::int64_t>(i * stride[0] + start[0]) * width + j * stride[1] + start[1];
  }
  __device__ T finish(T sum, int g, int i, int) const {
    return canonical(bias == nullptr ? sum : sum + bias[g * channels + i]);
  }
};

}  // namespace repdl::cuda
