// The maximum of each window and its index, and its gradient (max_pool2d.md).
//
//   for p < planes, y < OH, z < OW:  (planes, H, W) -> (planes, OH, OW)
//     index[p, y, z] = first of the largest, or last NaN, of the window of x[p] at (y, z)
#include <algorithm>
#include <limits>

#include <vector>

#include "base/routes.hpp"
#include "base/threads.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/shape/around.hpp"
#include "repdl/shape/window.hpp"

namespace repdl::cpu {
namespace {

struct Side : WindowSide {
  using WindowSide::WindowSide;

  // The outputs whose window has tap k inside the input: first, and one past the last.
  std::int64_t first(std::int64_t k) const {
    const std::int64_t need = padding - k * dilation;
    return std::min(out, need <= 0 ? 0 : (need + stride - 1) / stride);
  }
  std::int64_t last(std::int64_t k) const {
    const std::int64_t room = size - 1 + padding - k * dilation;
    return room < 0 ? 0 : std::min(out, room / stride + 1);
  }
  // The first tap of window o that lies inside the input.
  std::int64_t first_tap(std::int64_t o) const {
    const std::int64_t need = padding - o * stride;
    return need <= 0 ? 0 : (need + dilation - 1) / dilation;
  }
};

// One row of windows, a tap at a time: best and tap are the largest so far and where.
template <class T>
void pool_row(const T* x, const Side& h, const Side& w, std::int64_t y, T* best, std::int32_t* tap) {
  std::fill(best, best + w.out, -std::numeric_limits<T>::infinity());
  std::fill(tap, tap + w.out, -1);
  for (std::int64_t i = 0; i < h.kernel; ++i) {
    const std::int64_t row = h.at(y, i);
    if (row < 0 || row >= h.size) continue;
    for (std::int64_t j = 0; j < w.kernel; ++j) {
      const T* from = x + row * w.size + (j * w.dilation - w.padding);
      const std::int32_t here = static_cast<std::int32_t>(i * w.kernel + j);
      const std::int64_t end = w.last(j), stride = w.stride;
      for (std::int64_t z = w.first(j); z < end; ++z) {
        const T value = from[z * stride];
        const bool replace = value > best[z] || value != value;
        tap[z] = replace ? here : tap[z];
        best[z] = replace ? value : best[z];
      }
    }
  }
}

template <class T>
void max_pool2d(const Tensor& input, Ints kernel_size, Ints stride, Ints padding, Ints dilation, bool,
                const Tensor& output, const Tensor& indices, const ExecContext& exec) {
  const Side h(0, input, output, kernel_size, stride, padding, dilation);
  const Side w(1, input, output, kernel_size, stride, padding, dilation);
  const T* x = input.as<T>();
  T* y = output.as<T>();
  auto* index = indices.as<std::int64_t>();
  const std::int64_t work = h.out * w.out * h.kernel * w.kernel;
  std::vector<std::int64_t> offset;  // of each tap from the corner of its window
  for (std::int64_t i = 0; i < h.kernel; ++i)
    for (std::int64_t j = 0; j < w.kernel; ++j) offset.push_back(i * h.dilation * w.size + j * w.dilation);
  parallel_for(extent(input, 0, 2), std::max<std::int64_t>(1, (1 << 14) / (work + 1)), exec.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<std::int32_t> tap(static_cast<std::size_t>(w.out));
                 for (std::int64_t task = begin * h.out; task < end * h.out; ++task) {
                   const std::int64_t row = task % h.out, corner = h.at(row, 0) * w.size - w.padding;
                   T* best = y + task * w.out;
                   std::int64_t* to = index + task * w.out;
                   pool_row(x + task / h.out * h.size * w.size, h, w, row, best, tap.data());
                   for (std::int64_t z = 0; z < w.out; ++z) {
                     std::int64_t t = tap[static_cast<std::size_t>(z)];
                     // No tap was taken: every element is -inf, and the first one counts.
                     if (t < 0) REPDL_ROUTE("max_pool2d: no tap taken", sizeof(T));
                     if (t < 0) t = h.first_tap(row) * w.kernel + w.first_tap(z);
                     to[z] = corner + z * w.stride + offset[static_cast<std::size_t>(t)];
                   }
                   for (std::int64_t z = 0; z < w.out; ++z) best[z] = canonical(best[z]);
                 }
               });
}

template <class T>
void max_pool2d_backward(const Tensor& grads, const Tensor& indices, Ints, const Tensor& output,
                         const ExecContext& exec) {
  const std::int64_t outputs = extent(grads, 2, 4), inputs = extent(output, 2, 4);
  const T* grad = grads.as<T>();
  const auto* index = indices.as<std::int64_t>();
  T* out = output.as<T>();
  parallel_for(extent(output, 0, 2), std::max<std::int64_t>(1, (1 << 14) / (inputs + outputs + 1)), exec.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t p = begin; p < end; ++p) {
                   T* to = out + p * inputs;
                   std::fill(to, to + inputs, T(0));
                   for (std::int64_t o = p * outputs; o < (p + 1) * outputs; ++o) to[index[o]] += grad[o];
                   for (std::int64_t i = 0; i < inputs; ++i) to[i] = canonical(to[i]);
                 }
               });
}

const AddKernel max_pool2d_kernels = add_kernels<&max_pool2d<float>, &max_pool2d<double>>("max_pool2d", Layout::rows);
const AddKernel max_pool2d_backward_kernels =
    add_kernels<&max_pool2d_backward<float>, &max_pool2d_backward<double>>("max_pool2d_backward", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
