// Operands for windows of few taps (images.hpp), which most are: less arithmetic a tap.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "conv/images.hpp"
#include "gemm/strided.hpp"

namespace repdl::cuda {

// Windows of one tap on each element of an image, in order: rows are positions, k channels. Positions are
// copied 16 bytes at once, like the rows of a matrix.
template <class T>
struct Pixels {
  Images<T> x;
  FastDivmod32 area;

  explicit Pixels(const Windows<T>& windows) : x(windows.x), area(windows.window.area) {}

  static bool serve(const Windows<T>& windows) {
    return every_pixel(windows.window, windows.x) && is_aligned(windows.x.base) &&
           windows.window.area.divisor() % static_cast<int>(16 / sizeof(T)) == 0;
  }

  template <class Tiling>
  class Loader {
    static constexpr int vectors = Tiling::tile / Tiling::vector, k_step = Tiling::threads / vectors;

   public:
    __device__ Loader(const Pixels& pixels, Slice<Tiling>* slices, int group, int first_row, int rows, int first_k)
        : area_(pixels.area), to_(slices) {
      const int t = anew(threadIdx.x), row = t % vectors * Tiling::vector, k = t / vectors;
      inside_ = first_row + row < rows;
      const auto [n, position] = area_.split(first_row + row);
      from_ = pixels.x.group(group) + n * pixels.x.image + position + (std::int64_t{first_k} + k) * area_.divisor();
      to_ = to_ + (k * Tiling::width + row) * sizeof(T);
    }

    __device__ void load(int stage, int length) {
      const SharedPointer to = to_ + stage * sizeof(Slice<Tiling>);
      const int first = anew(threadIdx.x) / vectors;
#pragma unroll
      for (int k = 0; k < Tiling::depth; k += k_step)
        if (inside_ && first + k < length)
          (to + k * Tiling::width * sizeof(T)).template copy_from<16>(from_ + std::int64_t{area_.divisor()} * k);
      from_ += std::int64_t{length} * area_.divisor();
    }

   private:
    const FastDivmod32& area_;
    const T* from_;     // this thread's first vector of the next slice,
    SharedPointer to_;  // where it goes,
    bool inside_;       // and whether there is one
  };
};

// Windows whose taps are in a table, and beside it for each position a bit for each row and column of its
// window that lies in the image.
template <class T>
class TapWindows {
  // Tap t of a channel; behind the last one come those of the next channels, as many as a thread copies.
  struct Tap {
    int offset;      // from the start of a window
    unsigned sides;  // the bits of its row and column
  };
  static constexpr int most_taps = 56, next_taps = 8, most_side = 16;

 public:
  explicit TapWindows(const Windows<T>& windows) : x_(windows.x), window_(windows.window) {
    for (int t = 0; t < most_taps + next_taps; ++t)
      taps_[t] = {static_cast<int>(std::min<std::int64_t>(offset(windows, t), 2147483647)),
                  1u << row(windows, t) | 1u << (most_side + column(windows, t))};
  }

  static bool serve(const Windows<T>& windows) {
    const int taps = windows.window.taps.divisor(), columns = windows.window.kernel.divisor();
    if (taps > most_taps || columns > most_side || taps / columns > most_side) return false;
    for (int t = 0; t < taps + next_taps; ++t)
      if (std::abs(offset(windows, t)) > 2147483647) return false;
    return true;
  }

  // A thread has one position, and `each` taps side by side of every slice.
  template <class Tiling>
  class Loader {
    static constexpr int each = Tiling::depth * Tiling::tile / Tiling::threads;
    static_assert(each <= next_taps);

   public:
    __device__ Loader(const TapWindows& windows, Slice<Tiling>* slices, int group, int first_row, int rows, int first_k)
        : windows_(windows), to_(slices) {
      const Images<T>& x = windows.x_;
      const WindowShape& window = windows.window_;
      const int t = anew(threadIdx.x), row = t % Tiling::tile;
      first_ = t / Tiling::tile * each;
      const auto [n, position] = window.area.split(first_row + row < rows ? first_row + row : rows - 1);
      const T* image = x.group(group) + n * x.image;
      const auto [i, j] = window.width.split(position);
      const int y = i * window.stride[0] + window.start[0], x0 = j * window.stride[1] + window.start[1];
      sides_ = 0;
#pragma unroll 1
      for (int a = 0; a * window.kernel.divisor() < window.taps.divisor(); ++a)
        if (static_cast<unsigned>(y + a * window.step[0]) < static_cast<unsigned>(x.height)) sides_ |= 1u << a;
#pragma unroll 1
      for (int b = 0; b < window.kernel.divisor(); ++b)
        if (static_cast<unsigned>(x0 + b * window.step[1]) < static_cast<unsigned>(x.width))
          sides_ |= 1u << (most_side + b);
      const auto [channel, tap] = window.taps.split(first_k + first_);
      tap_ = tap;
      from_ = image + std::int64_t{channel} * (x.height * x.width) + (static_cast<std::int64_t>(y) * x.width + x0);
      to_ = to_ + (first_ * Tiling::width + row) * sizeof(T);
    }

    __device__ void load(int stage, int length) {
      const SharedPointer to = to_ + stage * sizeof(Slice<Tiling>);
#pragma unroll
      for (int pass = 0; pass < each; ++pass) {
        const Tap tap = windows_.taps_[tap_ + pass];
        if (first_ + pass < length)
          (to + pass * Tiling::width * sizeof(T))
              .template copy_or_zero<sizeof(T)>((sides_ & tap.sides) == tap.sides, from_ + tap.offset);
      }
      const auto [channels, tap] = windows_.window_.taps.split(tap_ + length);
      tap_ = tap;
      from_ += std::int64_t{channels} * (windows_.x_.height * windows_.x_.width);
    }

   private:
    const TapWindows& windows_;
    const T* from_;     // where this thread's window starts, in the channel of its next tap
    SharedPointer to_;  // where its first element goes
    int first_, tap_;   // its first k in the slice, and the tap that it is
    unsigned sides_;    // of its window
  };

 private:
  static int row(const Windows<T>& windows, int t) {
    return t % windows.window.taps.divisor() / windows.window.kernel.divisor() % most_side;
  }
  static int column(const Windows<T>& windows, int t) { return t % windows.window.kernel.divisor() % most_side; }
  static std::int64_t offset(const Windows<T>& windows, int t) {
    const Images<T>& x = windows.x;
    const std::int64_t channel = t / windows.window.taps.divisor();
    return (channel * x.height + row(windows, t) * std::int64_t{windows.window.step[0]}) * x.width +
           column(windows, t) * std::int64_t{windows.window.step[1]};
  }

  Images<T> x_;
  WindowShape window_;
  Tap taps_[most_taps + next_taps];
};

// f(operand) with what copies these windows.
template <class T, class F>
void with_windows(const Windows<T>& windows, const F& f) {
  if (Pixels<T>::serve(windows)) return f(Pixels<T>(windows));
  if (TapWindows<T>::serve(windows)) return f(TapWindows<T>(windows));
  return f(windows);
}

}  // namespace repdl::cuda
