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

// A packed block of rows is in the second cache, which is larger where vectors have 512 bits, while it meets all
// columns of a block, whose panels come one after the other into the first one. The blocks of rows that a thread takes
// share packed columns, if the product is not deeper than `shared_depth`.
constexpr bool many_registers = Vec::registers == 32;
constexpr std::int64_t double_rows_block = tuned(many_registers ? 192 : 96, 8),
                       double_columns_block = tuned(256, many_registers ? 64 : 32), double_piece = tuned(256, 8),
                       shared_depth = tuned(4096, 24);
constexpr int double_tile_rows = many_registers ? 8 : 6, double_tile_columns = 2 * VecOf<double>::width;

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

// Whole panels of rows that lie one after the other for each term: all of a term before the next one, as the
// terms may be pages apart.
template <int W>
void pack_contiguous(const double* data, const std::int64_t* inner, std::int64_t panels, std::int64_t kc, double* dst) {
  using V = VecOf<double>;
  for (std::int64_t k = 0; k < kc; ++k) {
    const double* row = data + inner[k];
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      double* to = dst + (panel * kc + k) * W;
      int i = 0;
      for (; i + V::width <= W; i += V::width) V::load(row + panel * W + i).store(to + i);
      for (; i < W; ++i) to[i] = row[panel * W + i];
    }
  }
}

// Panels of W rows, k first, zeros after the last row.
template <int W>
void pack_table(const TableOperand& x, std::int64_t batch, std::int64_t first, std::int64_t count, std::int64_t k0,
                std::int64_t kc, double* dst) {
  const double* data = x.data + x.batch[static_cast<std::size_t>(batch)];
  const std::int64_t *inner = x.inner.data() + k0, *outer = x.outer.data() + first;
  std::int64_t contiguous = 1;  // rows
  while (contiguous < count && outer[contiguous] == outer[0] + contiguous) ++contiguous;
  std::int64_t i = W > 1 ? contiguous / W * W : 0;
  if (i > 0) {
    REPDL_ROUTE("double: contiguous rows");
    pack_contiguous<W>(data + outer[0], inner, i / W, kc, dst);
    dst += i * kc;
  }
  bool dense = true;
  for (std::int64_t k = 1; k < kc; ++k) dense = dense && inner[k] == inner[0] + k;
  for (; i < count; i += W, dst += kc * W) {
    const std::int64_t rows = std::min<std::int64_t>(W, count - i);
    if (dense && rows == W) {
      REPDL_ROUTE("double: transposed rows", W);
      const double* starts[W];
      for (int r = 0; r < W; ++r) starts[r] = data + inner[0] + outer[i + r];
      pack_transposed<W>(starts, kc, dst);
    } else {
      REPDL_ROUTE("double: strided rows");
      for (std::int64_t k = 0; k < kc; ++k) {
        for (std::int64_t r = 0; r < rows; ++r) dst[k * W + r] = data[inner[k] + outer[i + r]];
        std::fill(dst + k * W + rows, dst + (k + 1) * W, 0.0);
      }
    }
  }
}

// A part of one product: rows [i0, i0 + m) and columns [j0, j0 + n), no more than a block.
struct DoubleBlock {
  std::int64_t batch, i0, m, j0, n;
};

// Columns of a block, packed piece by piece.
void pack_columns(const TableOperand& b, const DoubleBlock& at, std::int64_t k0, std::int64_t kc, double* dst) {
  pack_table<double_tile_columns>(b, at.batch, at.j0, at.n, k0, kc, dst);
}

// What becomes of the sums of a block's tiles, tile by tile: those that wait are added, one after the other. If no term
// is left they go into C, else into `chains`.
struct DoubleSums {
  double* chains;
  const double* const* waiting;
  int joins;
  const TableOutput* c;
  const DoubleBlock& at;
};

// The sums of R rows of a panel of columns into C.
template <int R>
void store_tile(const TableOutput& c, const DoubleBlock& at, std::int64_t i, std::int64_t j, const double* sums) {
  using V = VecOf<double>;
  constexpr int nr = double_tile_columns;
  const std::int64_t* columns = c.columns.data() + at.j0 + j;
  const std::int64_t* rows = c.rows.data() + at.i0 + i;
  const std::int64_t high = std::min<std::int64_t>(R, at.m - i), wide = std::min<std::int64_t>(nr, at.n - j);
  const std::int64_t of_batch = at.batch * static_cast<std::int64_t>(c.rows.size());
  const double* row_bias = c.row_bias ? c.row_bias + of_batch + at.i0 + i : nullptr;
  const double* column_bias = c.column_bias ? c.column_bias + at.j0 + j : nullptr;
  bool contiguous = wide == nr;
  for (std::int64_t q = 1; q < wide; ++q) contiguous = contiguous && columns[q] == columns[0] + q;
  if (contiguous) REPDL_ROUTE("double: contiguous columns");
  if (!contiguous) REPDL_ROUTE("double: strided columns");
  double* data = c.data + c.batch[static_cast<std::size_t>(at.batch)];
  for (std::int64_t r = 0; r < high; ++r) {
    double* row = data + rows[r];
    double results[nr];
    double* to = contiguous ? row + columns[0] : results;
    for (int v = 0; v < 2; ++v) {
      V result = V::load(sums + r * nr + v * V::width);
      const auto left = static_cast<int>(std::clamp<std::int64_t>(wide - v * V::width, 0, V::width));
      if (row_bias) result = result + V::set1(row_bias[r]);
      if (column_bias) result = result + V::load(column_bias + v * V::width, left);
      canonical(result).store(to + v * V::width);
    }
    if (!contiguous)
      for (std::int64_t q = 0; q < wide; ++q) row[columns[q]] = results[q];
  }
}

// kc more terms of the chains of R rows, from row i of the block on, and P panels of columns from j on; or their first
// ones. `offset` is that of the tile in a block of sums.
template <int R, int P, bool first>
void double_tile(const double* a, const double* b, std::int64_t kc, const DoubleSums& sums, std::int64_t i0,
                 std::int64_t j0, std::int64_t offset) {
  REPDL_ROUTE("double tile", R, P);
  using V = VecOf<double>;
  constexpr int nr = double_tile_columns;
  const auto place = [](int i, int j) { return j / 2 * R * nr + i * nr + j % 2 * V::width; };
  V acc[R][2 * P];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < 2 * P; ++j) acc[i][j] = first ? V::zero() : V::load(sums.chains + offset + place(i, j));
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
  for (int join = 0; join < sums.joins; ++join)
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < 2 * P; ++j) acc[i][j] = V::load(sums.waiting[join] + offset + place(i, j)) + acc[i][j];
  double here[R * P * nr];
  double* to = sums.c ? here : sums.chains + offset;
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < 2 * P; ++j) acc[i][j].store(to + place(i, j));
  if (sums.c)
    for (int panel = 0; panel < P; ++panel) store_tile<R>(*sums.c, sums.at, i0, j0 + panel * nr, here + panel * R * nr);
}

// All tiles of R rows. One row or two have too few chains in a panel: they take several panels at once.
template <int R, bool first>
void double_tiles(const double* a, std::int64_t rows, const double* b, std::int64_t columns, std::int64_t kc,
                  const DoubleSums& sums) {
  constexpr int nr = double_tile_columns, panels = R <= 2 ? 4 / R : 1;
  std::int64_t j = 0;
  if (rows == R)
    for (; j + panels * nr <= columns; j += panels * nr)
      double_tile<R, panels, first>(a, b + j * kc, kc, sums, 0, j, j * rows);
  for (; j < columns; j += nr)
    for (std::int64_t i = 0; i < rows; i += R)
      double_tile<R, 1, first>(a + i * kc, b + j * kc, kc, sums, i, j, j * rows + i * nr);
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

  for (std::int64_t index = 0; index < chunks; ++index) {
    const bool last = index + 1 == chunks;
    const double* joined[64];
    int joins = 0;
    const int waits = tree_join(index, last, [&](int level) { joined[joins++] = waiting[level]; });
    const std::int64_t begin = index * chunk, end = std::min(K, begin + chunk);
    std::int64_t k0 = begin;
    do {  // once where there are no terms
      if (k0 > begin) REPDL_ROUTE("double: several pieces");
      const std::int64_t kc = std::min(double_piece, end - k0);
      const bool whole = k0 + kc == end;  // all terms of the chains
      if (kc > 0) pack_table<R>(a, at.batch, at.i0, at.m, k0, kc, a_panels.data());
      if (kc > 0 && !packed) pack_columns(b, at, k0, kc, b_panels.data());
      const double* panels = packed ? packed + k0 * columns : b_panels.data();
      const DoubleSums sums{chains, joined, whole ? joins : 0, whole && last ? &c : nullptr, at};
      const auto tiles = k0 == begin ? double_tiles<R, true> : double_tiles<R, false>;
      tiles(a_panels.data(), rows, panels, columns, kc, sums);
      k0 += kc;
    } while (k0 < end);
    if (!last) std::swap(chains, waiting[waits]);
  }
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
