// matmul, linear, conv2d and its gradients in double, all as one product: the float ones have
// faster kernels of their own (gemm.hpp). The order is the same (matmul.md, conv2d.md).
//
//   for i < M, j < N:  (M, K), (N, K) -> (M, N)
//     C[i, j] = dot over k of A[i, k] and B[j, k], plus bias
//
// Operands are addressed by tables of offsets, so that no layout needs code of its own.
#include <algorithm>
#include <initializer_list>
#include <memory>

#include "base/tuned.hpp"
#include "repdl/contract/order.hpp"
#include "repdl/shape/convolution.hpp"
#include "repdl/shape/products.hpp"
#include "base/routes.hpp"
#include "base/scratch.hpp"
#include "simd/simd_double.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {
namespace {

using Sizes = std::vector<std::int64_t>;

// i * step for i < count.
Sizes steps(std::int64_t count, std::int64_t step) {
  Sizes result(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) result[static_cast<std::size_t>(i)] = i * step;
  return result;
}

// The sums of one offset of each list, those of the last list fastest.
Sizes sums(std::initializer_list<Sizes> lists) {
  Sizes result{0};
  for (const Sizes& list : lists) {
    Sizes longer;
    longer.reserve(result.size() * list.size());
    for (const std::int64_t offset : result)
      for (const std::int64_t more : list) longer.push_back(offset + more);
    result = std::move(longer);
  }
  return result;
}

// Element (i, k) of the operand of one product of a batch: data[batch[...] + outer[i] + inner[k]].
struct TableOperand {
  const double* data;
  Sizes batch, outer, inner;
};

struct TableOutput {
  double* data;
  Sizes batch, rows, columns;
  const double* row_bias = nullptr;  // those of one product after those of the other
  const double* column_bias = nullptr;
};

// Blocks of outputs that one packed piece of both operands serves.
constexpr std::int64_t double_rows_block = tuned(64, 8), double_columns_block = tuned(256, 16),
                       double_piece = tuned(256, 8);
constexpr int double_tile_rows = Vec::registers == 32 ? 8 : 4, double_tile_columns = 2 * VecOf<double>::width;

// Panels of `width` rows, k first, zeros after the last row.
void pack_table(const TableOperand& x, std::int64_t batch, std::int64_t first, std::int64_t count, int width,
                std::int64_t k0, std::int64_t kc, double* dst) {
  const double* data = x.data + x.batch[static_cast<std::size_t>(batch)];
  const std::int64_t* inner = x.inner.data() + k0;
  for (std::int64_t i = 0; i < count; i += width) {
    const std::int64_t* outer = x.outer.data() + first + i;
    const std::int64_t rows = std::min<std::int64_t>(width, count - i);
    bool contiguous = true;
    for (std::int64_t r = 1; r < rows; ++r) contiguous = contiguous && outer[r] == outer[0] + r;
    for (std::int64_t k = 0; k < kc; ++k, dst += width) {
      const double* from = data + inner[k];
      if (contiguous) REPDL_ROUTE("double: contiguous rows");
      if (!contiguous) REPDL_ROUTE("double: strided rows");
      if (contiguous)
        std::copy_n(from + outer[0], rows, dst);
      else
        for (std::int64_t r = 0; r < rows; ++r) dst[r] = from[outer[r]];
      std::fill(dst + rows, dst + width, 0.0);
    }
  }
}

// kc more terms of the chains of R rows and two vectors of columns.
template <int R>
void double_tile(const double* a, const double* b, std::int64_t kc, double* chains) {
  REPDL_ROUTE("double tile", R);
  using V = VecOf<double>;
  V acc[R][2];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < 2; ++j) acc[i][j] = V::load(chains + (2 * i + j) * V::width);
  for (std::int64_t k = 0; k < kc; ++k, a += R, b += 2 * V::width) {
    const V left = V::load(b), right = V::load(b + V::width);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const V x = V::set1(a[i]);
      acc[i][0] = fma(x, left, acc[i][0]);
      acc[i][1] = fma(x, right, acc[i][1]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < 2; ++j) acc[i][j].store(chains + (2 * i + j) * V::width);
}

// Rows [i0, i0 + m) and columns [j0, j0 + n) of one product, m and n no more than a block.
void double_block(const TableOperand& a, const TableOperand& b, const TableOutput& c, std::int64_t batch,
                  std::int64_t i0, std::int64_t m, std::int64_t j0, std::int64_t n, std::int64_t chunk) {
  const auto K = static_cast<std::int64_t>(a.inner.size());
  if (!chunk) chunk = std::max<std::int64_t>(K, 1);
  const int mr = m <= 2 ? static_cast<int>(m) : m <= 4 ? 4 : double_tile_rows, nr = double_tile_columns;
  const auto tile = mr == 1   ? double_tile<1>
                    : mr == 2 ? double_tile<2>
                    : mr == 4 ? double_tile<4>
                              : double_tile<double_tile_rows>;
  const std::int64_t rows = (m + mr - 1) / mr * mr, columns = (n + nr - 1) / nr * nr, area = rows * columns;
  const std::int64_t chunks = std::max<std::int64_t>(1, (K + chunk - 1) / chunk), depth = std::min(K, double_piece);
  const Scratch<double> a_panels(rows * depth), b_panels(columns * depth);
  const Scratch<double> partial((1 + tree_levels(chunks)) * area);
  double* chains = partial.data();  // tile by tile; the levels of the tree follow

  for (std::int64_t index = 0; index < chunks; ++index) {
    std::fill(chains, chains + area, 0.0);
    for (std::int64_t k0 = index * chunk, end = std::min(K, k0 + chunk); k0 < end; k0 += double_piece) {
      if (k0 > index * chunk) REPDL_ROUTE("double: several pieces");
      if (k0 > index * chunk) REPDL_ROUTE("double product: second piece");
      const std::int64_t kc = std::min(double_piece, end - k0);
      pack_table(a, batch, i0, m, mr, k0, kc, a_panels.data());
      pack_table(b, batch, j0, n, nr, k0, kc, b_panels.data());
      double* at = chains;
      for (std::int64_t j = 0; j < columns; j += nr)
        for (std::int64_t i = 0; i < rows; i += mr, at += mr * nr)
          tile(a_panels.data() + i * kc, b_panels.data() + j * kc, kc, at);
    }
    const bool last = index + 1 == chunks;
    const int waits = tree_join(index, last, [&](int level) {
      const double* left = chains + (level + 1) * area;
      for (std::int64_t e = 0; e < area; ++e) chains[e] = left[e] + chains[e];
    });
    if (!last) std::copy_n(chains, area, chains + (waits + 1) * area);
  }

  double* data = c.data + c.batch[static_cast<std::size_t>(batch)];
  const double* row_bias = c.row_bias ? c.row_bias + batch * static_cast<std::int64_t>(c.rows.size()) : nullptr;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double result = chains[j / nr * rows * nr + i * nr + j % nr];
      if (row_bias) result = result + row_bias[i0 + i];
      if (c.column_bias) result = result + c.column_bias[j0 + j];
      data[c.rows[static_cast<std::size_t>(i0 + i)] + c.columns[static_cast<std::size_t>(j0 + j)]] = canonical(result);
    }
}

void double_products(const TableOperand& a, const TableOperand& b, const TableOutput& c, std::int64_t chunk,
                     int threads) {
  const auto m = static_cast<std::int64_t>(c.rows.size()), n = static_cast<std::int64_t>(c.columns.size());
  const auto batch = static_cast<std::int64_t>(c.batch.size()), K = static_cast<std::int64_t>(a.inner.size());
  const std::int64_t down = (m + double_rows_block - 1) / double_rows_block;
  const std::int64_t across = (n + double_columns_block - 1) / double_columns_block;
  const std::int64_t work = std::min(m, double_rows_block) * std::min(n, double_columns_block) * (K + 1);
  if (work == 0) return;
  parallel_for(batch * down * across, std::max<std::int64_t>(1, (1 << 16) / work), threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t block = begin; block < end; ++block) {
                   const std::int64_t i = block / across % down * double_rows_block,
                                      j = block % across * double_columns_block;
                   if (i > 0) REPDL_ROUTE("double product: second block of rows");
                   if (j > 0) REPDL_ROUTE("double product: second block of columns");
                   double_block(a, b, c, block / across / down, i, std::min(double_rows_block, m - i), j,
                                std::min(double_columns_block, n - j), chunk);
                 }
               });
}

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

void products_double(const Products& p, const Tensor& a, const Tensor& b, const double* bias, const Contract& contract,
                     const Tensor& output, const ExecContext& exec) {
  double_products({a.as<double>(), p.offsets(p.a_batch), steps(p.m, p.a_row), steps(p.k, p.a_k)},
                  {b.as<double>(), p.offsets(p.b_batch), steps(p.n, p.b_column), steps(p.k, p.b_k)},
                  {output.as<double>(), steps(p.count(), p.m * p.n), steps(p.m, p.n), steps(p.n, 1), nullptr, bias},
                  contract.dot_chunk, exec.threads);
}

void matmul_double(const Tensor& input, const Tensor& mat2, bool transpose_a, bool transpose_b,
                   const Contract& contract, const Tensor& output, const ExecContext& exec) {
  products_double(Products(input, mat2, transpose_a, transpose_b, output), input, mat2, nullptr, contract, output,
                  exec);
}

void linear_double(const Tensor& input, const Tensor& weight, const Tensor& bias, const Contract& contract,
                   const Tensor& output, const ExecContext& exec) {
  products_double(Products(input, weight, false, true, output), input, weight, contiguous_vector<double>(bias, exec),
                  contract, output, exec);
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

[[maybe_unused]] const AddKernel gemm_double_kernels[] = {
    add_kernel<&matmul_double>("matmul", DType::float64),
    add_kernel<&linear_double>("linear", DType::float64),
    add_kernel<&conv2d_double>("conv2d", DType::float64, Layout::rows),
    add_kernel<&conv2d_grad_input_double>("conv2d_grad_input", DType::float64, Layout::rows),
    add_kernel<&conv2d_grad_weight_double>("conv2d_grad_weight", DType::float64, Layout::rows),
};

}  // namespace
}  // namespace repdl::cpu
