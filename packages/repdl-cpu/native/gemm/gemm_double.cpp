// matmul and linear in double, and the product that the convolutions of doubles are (conv/conv2d_double.cpp).
// The float ones have faster kernels of their own (gemm.hpp). The order is the same (matmul.md).
#include "gemm/gemm_double.hpp"

#include <algorithm>

#include "base/tuned.hpp"
#include "repdl/contract/order.hpp"
#include "repdl/shape/products.hpp"
#include "base/routes.hpp"
#include "base/scratch.hpp"
#include "simd/simd_double.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {
namespace {

// A packed block of rows is in the second cache while it meets all columns of a block, whose panels
// come one after the other into the first one. The blocks of rows that a thread takes share packed
// columns, if the product is not deeper than `shared_depth`.
constexpr std::int64_t double_rows_block = tuned(96, 8), double_columns_block = tuned(256, 32),
                       double_piece = tuned(256, 8), shared_depth = tuned(4096, 24);
constexpr int double_tile_rows = Vec::registers == 32 ? 8 : 6, double_tile_columns = 2 * VecOf<double>::width;

// Four rows of four elements as four columns: dst[k * stride + i] = rows[i][k].
inline void transpose_doubles(const double* const* rows, std::int64_t k, double* dst, std::int64_t stride) {
#if defined(__AVX2__)
  const __m256d a = _mm256_loadu_pd(rows[0] + k), b = _mm256_loadu_pd(rows[1] + k);
  const __m256d c = _mm256_loadu_pd(rows[2] + k), d = _mm256_loadu_pd(rows[3] + k);
  const __m256d ab0 = _mm256_unpacklo_pd(a, b), ab1 = _mm256_unpackhi_pd(a, b);
  const __m256d cd0 = _mm256_unpacklo_pd(c, d), cd1 = _mm256_unpackhi_pd(c, d);
  _mm256_storeu_pd(dst, _mm256_permute2f128_pd(ab0, cd0, 0x20));
  _mm256_storeu_pd(dst + stride, _mm256_permute2f128_pd(ab1, cd1, 0x20));
  _mm256_storeu_pd(dst + 2 * stride, _mm256_permute2f128_pd(ab0, cd0, 0x31));
  _mm256_storeu_pd(dst + 3 * stride, _mm256_permute2f128_pd(ab1, cd1, 0x31));
#else
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) dst[j * stride + i] = rows[i][k + j];
#endif
}

// A panel of W rows whose terms lie one after the other.
template <int W>
void pack_transposed(const double* const* rows, std::int64_t kc, double* dst) {
  std::int64_t k = 0;
  if constexpr (W >= 4)
    for (; k + 4 <= kc; k += 4)
      for (int i = 0; i < W; i += 4) {  // the last four rows may overlap those before them
        const int at = std::min(i, W - 4);
        transpose_doubles(rows + at, k, dst + k * W + at, W);
      }
  for (; k < kc; ++k)
    for (int i = 0; i < W; ++i) dst[k * W + i] = rows[i][k];
}

// Panels of W rows, k first, zeros after the last row.
template <int W>
void pack_table(const TableOperand& x, std::int64_t batch, std::int64_t first, std::int64_t count, std::int64_t k0,
                std::int64_t kc, double* dst) {
  const double* data = x.data + x.batch[static_cast<std::size_t>(batch)];
  const std::int64_t* inner = x.inner.data() + k0;
  bool dense = true;
  for (std::int64_t k = 1; k < kc; ++k) dense = dense && inner[k] == inner[0] + k;
  for (std::int64_t i = 0; i < count; i += W, dst += kc * W) {
    const std::int64_t* outer = x.outer.data() + first + i;
    const std::int64_t rows = std::min<std::int64_t>(W, count - i);
    bool contiguous = W > 1 && rows == W;
    for (std::int64_t r = 1; r < rows; ++r) contiguous = contiguous && outer[r] == outer[0] + r;
    if (contiguous) {
      REPDL_ROUTE("double: contiguous rows");
      for (std::int64_t k = 0; k < kc; ++k) std::copy_n(data + inner[k] + outer[0], W, dst + k * W);
    } else if (dense && rows == W) {
      REPDL_ROUTE("double: transposed rows", W);
      const double* starts[W];
      for (int r = 0; r < W; ++r) starts[r] = data + inner[0] + outer[r];
      pack_transposed<W>(starts, kc, dst);
    } else {
      REPDL_ROUTE("double: strided rows");
      for (std::int64_t k = 0; k < kc; ++k) {
        for (std::int64_t r = 0; r < rows; ++r) dst[k * W + r] = data[inner[k] + outer[r]];
        std::fill(dst + k * W + rows, dst + (k + 1) * W, 0.0);
      }
    }
  }
}

// kc more terms of the chains of R rows and P panels of columns, or the first ones.
template <int R, int P, bool first>
void double_tile(const double* a, const double* b, std::int64_t kc, double* chains) {
  REPDL_ROUTE("double tile", R, P);
  using V = VecOf<double>;
  constexpr int nr = double_tile_columns;
  V acc[R][2 * P];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < 2 * P; ++j)
      acc[i][j] = first ? V::zero() : V::load(chains + j / 2 * R * nr + i * nr + j % 2 * V::width);
  for (std::int64_t k = 0; k < kc; ++k, a += R, b += nr) {
    V columns[2 * P];
#pragma GCC unroll 8
    for (int j = 0; j < 2 * P; ++j) columns[j] = V::load(b + j / 2 * nr * kc + j % 2 * V::width);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const V x = V::set1(a[i]);
#pragma GCC unroll 8
      for (int j = 0; j < 2 * P; ++j) acc[i][j] = fma(x, columns[j], acc[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < 2 * P; ++j) acc[i][j].store(chains + j / 2 * R * nr + i * nr + j % 2 * V::width);
}

// All tiles of R rows. One row or two have too few chains in a panel: they take several panels at once.
template <int R, bool first>
void double_tiles(const double* a, std::int64_t rows, const double* b, std::int64_t columns, std::int64_t kc,
                  double* chains) {
  constexpr int nr = double_tile_columns, panels = R <= 2 ? 4 / R : 1;
  std::int64_t j = 0;
  if (rows == R)
    for (; j + panels * nr <= columns; j += panels * nr, chains += panels * R * nr)
      double_tile<R, panels, first>(a, b + j * kc, kc, chains);
  for (; j < columns; j += nr)
    for (std::int64_t i = 0; i < rows; i += R, chains += R * nr)
      double_tile<R, 1, first>(a + i * kc, b + j * kc, kc, chains);
}

// A part of one product: rows [i0, i0 + m) and columns [j0, j0 + n), no more than a block.
struct DoubleBlock {
  std::int64_t batch, i0, m, j0, n;
};

// Columns of a block, packed piece by piece.
void pack_columns(const TableOperand& b, const DoubleBlock& at, std::int64_t k0, std::int64_t kc, double* dst) {
  pack_table<double_tile_columns>(b, at.batch, at.j0, at.n, k0, kc, dst);
}

// What is done with the sums of all terms of a block, tile by tile: R rows of each panel of columns.
template <int R>
void store_tiles(const TableOutput& c, const DoubleBlock& at, std::int64_t rows, const double* sums) {
  using V = VecOf<double>;
  constexpr int nr = double_tile_columns;
  double* data = c.data + c.batch[static_cast<std::size_t>(at.batch)];
  const double* row_bias =
      c.row_bias ? c.row_bias + at.batch * static_cast<std::int64_t>(c.rows.size()) + at.i0 : nullptr;
  const double* column_bias = c.column_bias ? c.column_bias + at.j0 : nullptr;
  for (std::int64_t j = 0; j < at.n; j += nr, sums += rows * nr) {
    const std::int64_t* columns = c.columns.data() + at.j0 + j;
    const std::int64_t wide = std::min<std::int64_t>(nr, at.n - j);
    bool contiguous = wide == nr;
    for (std::int64_t q = 1; q < wide; ++q) contiguous = contiguous && columns[q] == columns[0] + q;
    if (contiguous) REPDL_ROUTE("double: contiguous columns");
    if (!contiguous) REPDL_ROUTE("double: strided columns");
    for (std::int64_t i = 0; i < at.m; ++i) {
      double* row = data + c.rows[static_cast<std::size_t>(at.i0 + i)];
      double results[nr];
      double* to = contiguous ? row + columns[0] : results;
      for (int v = 0; v < 2; ++v) {
        V result = V::load(sums + i * nr + v * V::width);
        const auto left = static_cast<int>(std::clamp<std::int64_t>(wide - v * V::width, 0, V::width));
        if (row_bias) result = result + V::set1(row_bias[i]);
        if (column_bias) result = result + V::load(column_bias + j + v * V::width, left);
        canonical(result).store(to + v * V::width);
      }
      if (!contiguous)
        for (std::int64_t q = 0; q < wide; ++q) row[columns[q]] = results[q];
    }
  }
}

// One block in tiles of R rows. `packed`: all terms of its columns, or null.
template <int R>
void double_block(const TableOperand& a, const TableOperand& b, const TableOutput& c, const DoubleBlock& at,
                  std::int64_t chunk, const double* packed) {
  const auto K = static_cast<std::int64_t>(a.inner.size());
  constexpr int nr = double_tile_columns;
  const std::int64_t rows = (at.m + R - 1) / R * R, columns = (at.n + nr - 1) / nr * nr, area = rows * columns;
  const std::int64_t chunks = std::max<std::int64_t>(1, (K + chunk - 1) / chunk), depth = std::min(K, double_piece);
  const int levels = tree_levels(chunks);
  const Scratch<double> a_panels(rows * depth), b_panels(packed ? 0 : columns * depth), partial((1 + levels) * area);
  double* chains = partial.data();  // tile by tile
  double* waiting[64];              // at the levels of the tree
  for (int level = 0; level < levels; ++level) waiting[level] = chains + (level + 1) * area;
  if (K == 0) std::fill(chains, chains + area, 0.0);

  for (std::int64_t index = 0; index < chunks; ++index) {
    for (std::int64_t k0 = index * chunk, end = std::min(K, k0 + chunk); k0 < end; k0 += double_piece) {
      const bool first = k0 == index * chunk;
      if (!first) REPDL_ROUTE("double: several pieces");
      const std::int64_t kc = std::min(double_piece, end - k0);
      pack_table<R>(a, at.batch, at.i0, at.m, k0, kc, a_panels.data());
      if (!packed) pack_columns(b, at, k0, kc, b_panels.data());
      const double* panels = packed ? packed + k0 * columns : b_panels.data();
      const auto tiles = first ? double_tiles<R, true> : double_tiles<R, false>;
      tiles(a_panels.data(), rows, panels, columns, kc, chains);
    }
    const bool last = index + 1 == chunks;
    const int waits = tree_join(index, last, [&](int level) {
      for (std::int64_t e = 0; e < area; ++e) chains[e] = waiting[level][e] + chains[e];
    });
    if (!last) std::swap(chains, waiting[waits]);
  }
  store_tiles<R>(c, at, rows, chains);
}

void double_block(const TableOperand& a, const TableOperand& b, const TableOutput& c, const DoubleBlock& at,
                  std::int64_t chunk, const double* packed) {
  const auto block = at.m == 1   ? double_block<1>
                     : at.m == 2 ? double_block<2>
                     : at.m <= 4 ? double_block<4>
                                 : double_block<double_tile_rows>;
  block(a, b, c, at, chunk, packed);
}

// All terms of the columns of a block: the pieces of each chunk one after the other.
void pack_all(const TableOperand& b, const DoubleBlock& at, std::int64_t chunk, double* dst) {
  const auto K = static_cast<std::int64_t>(b.inner.size());
  const std::int64_t columns = (at.n + double_tile_columns - 1) / double_tile_columns * double_tile_columns;
  for (std::int64_t begin = 0; begin < K; begin += chunk)
    for (std::int64_t k0 = begin, end = std::min(K, begin + chunk); k0 < end; k0 += double_piece)
      pack_columns(b, at, k0, std::min(double_piece, end - k0), dst + k0 * columns);
}

}  // namespace

void double_products(const TableOperand& a, const TableOperand& b, const TableOutput& c, std::int64_t chunk,
                     int threads) {
  const auto m = static_cast<std::int64_t>(c.rows.size()), n = static_cast<std::int64_t>(c.columns.size());
  const auto batch = static_cast<std::int64_t>(c.batch.size()), K = static_cast<std::int64_t>(a.inner.size());
  if (!chunk) chunk = std::max<std::int64_t>(K, 1);
  const std::int64_t down = (m + double_rows_block - 1) / double_rows_block;
  std::int64_t block_columns = double_columns_block;  // fewer where threads would have nothing to do
  while (block_columns > 2 * double_tile_columns && batch * down * ((n + block_columns - 1) / block_columns) < threads)
    block_columns /= 2;
  const std::int64_t across = (n + block_columns - 1) / block_columns;
  const std::int64_t work = std::min(m, double_rows_block) * std::min(n, block_columns) * (K + 1);
  if (work == 0) return;
  // Blocks are taken down the rows, those of one thread in a row.
  parallel_for(batch * across * down, std::max<std::int64_t>(1, (1 << 16) / work), threads,
               [&](std::int64_t begin, std::int64_t end) {
                 const bool shares = K <= shared_depth && down > 1;
                 const std::int64_t widest = std::min(n, block_columns) + double_tile_columns;
                 const Scratch<double> columns(shares ? widest * K : 0);
                 std::int64_t of = -1;  // whose columns are packed
                 for (std::int64_t block = begin; block < end; ++block) {
                   const std::int64_t i = block % down * double_rows_block, j = block / down % across * block_columns;
                   if (i > 0) REPDL_ROUTE("double product: second block of rows");
                   if (j > 0) REPDL_ROUTE("double product: second block of columns");
                   const DoubleBlock at{block / down / across, i, std::min(double_rows_block, m - i), j,
                                        std::min(block_columns, n - j)};
                   if (shares && std::exchange(of, block / down) != block / down)
                     pack_all(b, at, chunk, columns.data());
                   double_block(a, b, c, at, chunk, shares ? columns.data() : nullptr);
                 }
               });
}

namespace {

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

[[maybe_unused]] const AddKernel gemm_double_kernels[] = {
    add_kernel<&matmul_double>("matmul", DType::float64),
    add_kernel<&linear_double>("linear", DType::float64),
};

}  // namespace
}  // namespace repdl::cpu
