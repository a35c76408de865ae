// conv2d and its gradients in double, each as one product (gemm/gemm_double.hpp); the float ones have faster
// kernels of their own. The order is the same (conv2d.md).
#include <algorithm>
#include <memory>

#include "gemm/gemm_double.hpp"
#include "repdl/shape/convolution.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {
namespace {

// Planes (h, w) between zeros, in planes (rows, columns) from (top, left) on.
struct PaddedPlanes {
  std::int64_t rows, columns;
  std::unique_ptr<double[]> data;

  PaddedPlanes(const double* planes, std::int64_t count, std::int64_t h, std::int64_t w, std::int64_t top,
               std::int64_t left, std::int64_t rows, std::int64_t columns, int threads)
      : rows(rows), columns(columns), data(new double[static_cast<std::size_t>(count * rows * columns)]()) {
    parallel_for(count, std::max<std::int64_t>(1, (1 << 14) / (h * w + 1)), threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     for (std::int64_t y = 0; y < h; ++y)
                       std::copy_n(planes + (i * h + y) * w, w, data.get() + (i * rows + top + y) * columns + left);
                 });
  }

  std::int64_t area() const { return rows * columns; }
};

// The image as conv2d and its weight gradient read it: element (position, tap).
struct Patches {
  PaddedPlanes padded;
  Sizes groups, positions, taps;

  Patches(const double* input, const Geometry& g, int threads)
      : padded(input, g.n * g.c, g.h, g.w, g.pad_h, g.pad_w, g.h + 2 * g.pad_h, g.w + 2 * g.pad_w, threads),
        groups(steps(g.groups, g.group_c() * padded.area())),
        positions(
            sums({steps(g.n, g.c * padded.area()), steps(g.oh, g.stride_h * padded.columns), steps(g.ow, g.stride_w)})),
        taps(sums({steps(g.group_c(), padded.area()), steps(g.kh, g.dilation_h * padded.columns),
                   steps(g.kw, g.dilation_w)})) {}
};

void double_conv2d(const double* input, const double* weight, const double* bias, double* output, const Geometry& g,
                   std::int64_t chunk, int threads) {
  const std::int64_t m = g.group_o(), K = g.group_c() * g.kh * g.kw, area = g.oh * g.ow;
  const Patches x(input, g, threads);
  double_products(
      {weight, steps(g.groups, m * K), steps(m, K), steps(K, 1)}, {x.padded.data.get(), x.groups, x.positions, x.taps},
      {output, steps(g.groups, m * area), steps(m, area), sums({steps(g.n, g.o * area), steps(area, 1)}), bias}, chunk,
      threads);
}

void double_conv2d_grad_weight(const double* grad, const double* input, double* output, const Geometry& g,
                               std::int64_t chunk, int threads) {
  const std::int64_t m = g.group_o(), columns = g.group_c() * g.kh * g.kw, area = g.oh * g.ow;
  const Patches x(input, g, threads);
  double_products({grad, steps(g.groups, m * area), steps(m, area), sums({steps(g.n, g.o * area), steps(area, 1)})},
                  {x.padded.data.get(), x.groups, x.taps, x.positions},
                  {output, steps(g.groups, m * columns), steps(m, columns), steps(columns, 1)}, chunk, threads);
}

// One side of the input gradient: for a stride phase, its positions and the taps that exist for them.
struct PhaseSide {
  std::int64_t size, out, kernel, stride, pad, dilation;
  // Of the padded gradient, which holds all that a tap can reach.
  std::int64_t before = std::max<std::int64_t>(0, (kernel - 1) * dilation - pad) / stride;
  std::int64_t extent = before + std::max(out, (size - 1 + pad) / stride + 1);
  Sizes positions = {}, taps = {}, shifts = {};

  void choose(std::int64_t phase) {
    positions.clear(), taps.clear(), shifts.clear();
    for (std::int64_t at = phase; at < size; at += stride) positions.push_back(at);
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t reach = phase + pad - k * dilation;
      if (reach % stride == 0) taps.push_back(k), shifts.push_back(before + reach / stride);
    }
  }
};

Sizes scaled(Sizes offsets, std::int64_t factor) {
  for (std::int64_t& offset : offsets) offset *= factor;
  return offsets;
}

void double_conv2d_grad_input(const double* grad, const double* weight, double* output, const Geometry& g,
                              std::int64_t chunk, int threads) {
  const std::int64_t o = g.group_o(), m = g.group_c(), kernel = g.kh * g.kw, area = g.h * g.w;
  if (g.n * g.c * area == 0) return;
  PhaseSide rows{g.h, g.oh, g.kh, g.stride_h, g.pad_h, g.dilation_h};
  PhaseSide columns{g.w, g.ow, g.kw, g.stride_w, g.pad_w, g.dilation_w};
  const PaddedPlanes padded(grad, g.n * g.o, g.oh, g.ow, rows.before, columns.before, rows.extent, columns.extent,
                            threads);
  for (std::int64_t y = 0; y < std::min(g.stride_h, g.h); ++y)
    for (std::int64_t x = 0; x < std::min(g.stride_w, g.w); ++x) {
      rows.choose(y);
      columns.choose(x);
      const auto high = static_cast<std::int64_t>(rows.positions.size());
      const auto wide = static_cast<std::int64_t>(columns.positions.size());
      double_products({weight, steps(g.groups, o * m * kernel), steps(m, kernel),
                       sums({steps(o, m * kernel), scaled(rows.taps, g.kw), columns.taps})},
                      {padded.data.get(), steps(g.groups, o * padded.area()),
                       sums({steps(g.n, g.o * padded.area()), steps(high, padded.columns), steps(wide, 1)}),
                       sums({steps(o, padded.area()), scaled(rows.shifts, padded.columns), columns.shifts})},
                      {output, steps(g.groups, m * area), steps(m, area),
                       sums({steps(g.n, g.c * area), scaled(rows.positions, g.w), columns.positions})},
                      chunk, threads);
    }
}

void conv2d_double(const Tensor& input, const Tensor& weight, const Tensor& bias, Ints stride, Ints padding,
                   Ints dilation, std::int64_t groups, const Contract& contract, const Tensor& output,
                   const ExecContext& exec) {
  double_conv2d(input.as<double>(), weight.as<double>(), bias.as<double>(), output.as<double>(),
                geometry(input, output, weight.size + 2, stride, padding, dilation, groups), contract.dot_chunk,
                exec.threads);
}

void conv2d_grad_input_double(const Tensor& grad, const Tensor& weight, Ints, Ints stride, Ints padding, Ints dilation,
                              std::int64_t groups, const Contract& contract, const Tensor& output,
                              const ExecContext& exec) {
  double_conv2d_grad_input(grad.as<double>(), weight.as<double>(), output.as<double>(),
                           geometry(output, grad, weight.size + 2, stride, padding, dilation, groups),
                           contract.dot_chunk, exec.threads);
}

void conv2d_grad_weight_double(const Tensor& grad, const Tensor& input, Ints kernel_size, Ints stride, Ints padding,
                               Ints dilation, std::int64_t groups, const Contract& contract, const Tensor& output,
                               const ExecContext& exec) {
  double_conv2d_grad_weight(grad.as<double>(), input.as<double>(), output.as<double>(),
                            geometry(input, grad, kernel_size.begin(), stride, padding, dilation, groups),
                            contract.dot_chunk, exec.threads);
}

[[maybe_unused]] const AddKernel conv2d_double_kernels[] = {
    add_kernel<&conv2d_double>("conv2d", DType::float64, Layout::rows),
    add_kernel<&conv2d_grad_input_double>("conv2d_grad_input", DType::float64, Layout::rows),
    add_kernel<&conv2d_grad_weight_double>("conv2d_grad_weight", DType::float64, Layout::rows),
};

}  // namespace
}  // namespace repdl::cpu
