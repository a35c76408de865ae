// out[outer] = the contract's sum over the reduced index (sum.md, sum.hpp).
//
//   for each outer index:  (outer..., reduced...) -> (outer...)
//     out[outer] = sum of in[outer, reduced], reduced in row-major order
//
// Dimensions are collapsed first. Three layouts: a reduced run that is one strided row;
// contiguous outer elements (columns); anything else is gathered piece by piece.
#include "reduce/sum.hpp"

#include <vector>

#include "base/routes.hpp"
#include "base/streams.hpp"
#include "base/threads.hpp"
#include "reduce/reduced_dims.hpp"
#include "reduce/register_lanes.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t grain = 1 << 15;  // elements worth a thread

// Elements begin .. begin + n of the reduced index at x, n within one block.
template <class T>
T gathered_block(const T* x, const ReducedDims& reduced, std::int64_t begin, std::int64_t n, const Contract& contract) {
  return sum_block_filled<T>(begin, n, contract, [&](std::int64_t start, std::int64_t count, T* dst) {
    reduced.gather(x, start, count, dst);
  });
}

template <class T>
T row_at(const T* x, const ReducedDims& reduced, const Contract& contract) {
  REPDL_ROUTE("sum: row", sizeof(T));
  if (reduced.size.size() > 1) REPDL_ROUTE("sum: row, gathered", sizeof(T));
  if (reduced.size.size() <= 1) return sum_row(x, reduced.count, reduced.inner_stride(), contract);
  return sum_filled<T>(reduced.count, contract,
                       [&](std::int64_t start, std::int64_t count, T* dst) { reduced.gather(x, start, count, dst); });
}

// Contiguous outer elements: tiles of columns.
template <class T>
void columns(const T* x, T* out, const ReducedDims& outer_dims, const ReducedDims& reduced, const Contract& contract,
             int threads) {
  const std::int64_t width = outer_dims.inner_size(), n = reduced.count, outer_size = outer_dims.count / width;
  // Long tiles, but enough of them for all threads, and not of less than a cache line's columns.
  const std::int64_t wanted = (width * outer_size + threads - 1) / threads;
  const std::int64_t tile = std::clamp<std::int64_t>((wanted + 63) / 64 * 64, 64, max_sum_columns);
  const bool single = reduced.size.size() <= 1;
  const std::int64_t stride = reduced.size.empty() ? 0 : reduced.stride[0];
  for_tiles_of_columns(
      outer_dims, reduced, tile, grain, threads, [&](std::int64_t first, std::int64_t place, std::int64_t count) {
        const T* from = x + first;
        T* to = out + place;
        if (!single) REPDL_ROUTE("sum: columns, gathered", sizeof(T));
        const auto row = [&](std::int64_t i) { return from + (single ? i * stride : reduced.offset(i)); };
        if (fits_registers(n, contract) && count >= VecOf<T>::width)
          sum_in_registers(n, count, row, to, contract);
        else
          sum_columns(n, count, single && stride == count, row, to, contract);
        for (std::int64_t c = 0; c < count; ++c) to[c] = canonical(to[c]);
      });
}

// partial[r * blocks + b] = block b of row r of n contiguous elements, in several streams of memory
// at once: of rows, or of one row's blocks.
template <class T>
void block_sums(const T* x, std::int64_t rows, std::int64_t row_stride, std::int64_t n, const Contract& contract,
                T* partial) {
  const std::int64_t block = sum_block_of(contract, n), blocks = (n + block - 1) / block;
  const std::int64_t stream_rows = stream_length(rows, sum_streams),
                     stream_blocks = stream_length(n / block, sum_streams);
  for (std::int64_t r = 0; r < stream_rows; ++r)
    for (std::int64_t b = 0; b < blocks; ++b)
      sum_blocks(x + r * row_stride + b * block, stream_rows * row_stride, std::min(block, n - b * block), contract,
                 partial + r * blocks + b, stream_rows * blocks);
  if (stream_rows > 0) REPDL_ROUTE("sum: rows in streams", sizeof(T));
  for (std::int64_t r = stream_rows * sum_streams; r < rows; ++r) {
    if (stream_blocks > 0) REPDL_ROUTE("sum: blocks of a row in streams", sizeof(T));
    const T* row = x + r * row_stride;
    T* to = partial + r * blocks;
    for (std::int64_t b = 0; b < stream_blocks; ++b)
      sum_blocks(row + b * block, stream_blocks * block, block, contract, to + b, stream_blocks);
    for (std::int64_t b = stream_blocks * sum_streams; b < blocks; ++b)
      to[b] = sum_block(row + b * block, std::min(block, n - b * block), contract);
  }
}

// Few outputs: threads take whole blocks, and the tree joins them afterwards.
template <class T>
void few_outputs(const T* x, T* out, const ReducedDims& outer_dims, const ReducedDims& reduced,
                 const Contract& contract, int threads) {
  const std::int64_t n = reduced.count, block = sum_block_of(contract, n);
  join_blocks(outer_dims.count, n, contract, grain, threads, out,
              [&](std::int64_t o, std::int64_t begin, std::int64_t end, T* partial) {
                const T* from = x + outer_dims.offset(o);
                if (!reduced.is_run()) REPDL_ROUTE("sum: few outputs, gathered", sizeof(T));
                if (reduced.is_run()) {
                  REPDL_ROUTE("sum: few outputs", sizeof(T));
                  const std::int64_t first = begin * block, count = std::min(n, end * block) - first;
                  return block_sums(from + first, 1, 0, count, sum_order(contract.sum_lanes, block), partial);
                }
                for (std::int64_t b = begin; b < end; ++b)
                  partial[b - begin] =
                      gathered_block(from, reduced, b * block, std::min(block, n - b * block), contract);
              });
}

// Each output is the sum of a row of n contiguous elements.
template <class T>
void contiguous_rows(const T* x, T* out, std::int64_t rows, std::int64_t row_stride, std::int64_t n,
                     const Contract& contract, int threads) {
  const std::int64_t block = sum_block_of(contract, n), blocks = (n + block - 1) / block;
  const std::int64_t at_once = std::max<std::int64_t>(1, (1 << 12) / blocks);  // rows
  parallel_for(rows, std::max<std::int64_t>(1, grain / (n + 1)), threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> partial(static_cast<std::size_t>(std::min(at_once, end - begin) * blocks));
    for (std::int64_t r = begin; r < end; r += at_once) {
      if (r > begin) REPDL_ROUTE("sum: rows, several times", sizeof(T));
      const std::int64_t count = std::min(at_once, end - r);
      block_sums(x + r * row_stride, count, row_stride, n, contract, partial.data());
      for (std::int64_t i = 0; i < count; ++i) out[r + i] = canonical(tree_of(&partial[i * blocks], blocks));
    }
  });
}

// Each output is the sum of a row of n elements anywhere.
template <class T>
void strided_rows(const T* x, T* out, const ReducedDims& outer_dims, const ReducedDims& reduced,
                  const Contract& contract, int threads) {
  parallel_for(outer_dims.count, std::max<std::int64_t>(1, grain / (reduced.count + 1)), threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t o = begin; o < end; ++o)
                   out[o] = canonical(row_at(x + outer_dims.offset(o), reduced, contract));
               });
}

// Which loop computes a sum; no bit depends on it.
enum class SumRoute { columns, few_outputs, contiguous_rows, strided_rows };

SumRoute sum_route(const ReducedDims& outer_dims, const ReducedDims& reduced, const Contract& contract, int threads) {
  const std::int64_t n = reduced.count;
  if (are_columns(outer_dims, reduced)) return SumRoute::columns;
  if (outer_dims.count < threads && n > sum_block_of(contract, n)) return SumRoute::few_outputs;
  if (n > 0 && reduced.is_run() && outer_dims.size.size() <= 1) return SumRoute::contiguous_rows;
  return SumRoute::strided_rows;
}

template <class T>
void sum(const Tensor& input, Ints dim, bool, const Contract& contract, const Tensor& output, const ExecContext& exec) {
  const T* x = input.as<T>();
  T* out = output.as<T>();
  const ReducedDims outer_dims(Dimensions(input, dim, false)), reduced(Dimensions(input, dim, true));
  if (outer_dims.count == 0) return;
  switch (sum_route(outer_dims, reduced, contract, exec.threads)) {
    case SumRoute::columns: return columns(x, out, outer_dims, reduced, contract, exec.threads);
    case SumRoute::few_outputs: return few_outputs(x, out, outer_dims, reduced, contract, exec.threads);
    case SumRoute::contiguous_rows:
      return contiguous_rows(x, out, outer_dims.count, outer_dims.inner_stride(), reduced.count, contract,
                             exec.threads);
    case SumRoute::strided_rows: return strided_rows(x, out, outer_dims, reduced, contract, exec.threads);
  }
}

const AddKernel sum_kernels = add_kernels<&sum<float>, &sum<double>>("sum");

}  // namespace
}  // namespace repdl::cpu
