// out[outer] = the contract's sum of the squares over the reduced index (sum.md, sum.hpp).
//
//   for each outer index:  (outer..., reduced...) -> (outer...)
//     out[outer] = sum of in[outer, reduced]^2, each square rounded once
//
// The loops are those of sum.cpp; squares go through the cache, never to memory.
#include "base/routes.hpp"
#include "base/scratch.hpp"
#include "base/threads.hpp"
#include "reduce/reduced_dims.hpp"
#include "reduce/row_sum.hpp"
#include "reduce/sum.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t squares_a_thread = 1 << 14;

template <class T>
T square_of(T x) {
  return repdl::mul(x, x);
}

// Elements begin .. begin + n of the reduced index at x, n within one block.
template <class T>
T squares_of_block(const T* x, const ReducedDims& reduced, std::int64_t begin, std::int64_t n,
                   const Contract& contract) {
  return sum_block_filled<T>(begin, n, contract, [&](std::int64_t start, std::int64_t count, T* dst) {
    reduced.map(x, start, count, dst, square_of<T>);
  });
}

// A row of n elements.
template <class T>
T squares_of_row(const T* x, const ReducedDims& reduced, const Contract& contract) {
  const std::int64_t n = reduced.count;
  if constexpr (std::is_same_v<T, float>) {
    if (reduced.is_run()) {
      REPDL_ROUTE("sum of squares: run");
      return sum_each(n, contract, [x](std::int64_t i, auto part) {
        const Vec y = part.load(x + i);
        return y * y;
      });
    }
  }
  return sum_filled<T>(n, contract, [&](std::int64_t start, std::int64_t count, T* dst) {
    reduced.map(x, start, count, dst, square_of<T>);
  });
}

// A few outer elements behind which the next ones follow: squares of as many rows as there are lanes at once.
template <class T>
void few_columns_of_squares(const T* x, T* out, std::int64_t n, std::int64_t width, const Contract& contract) {
  REPDL_ROUTE("sum of squares: few columns", sizeof(T));
  const std::int64_t lanes = contract.sum_lanes;
  const Scratch<T> squares(lanes * width);
  const auto squared = [&](std::int64_t i) {
    const std::int64_t count = std::min(lanes, n - i) * width;
    for (std::int64_t j = 0; j < count; ++j) squares.data()[j] = square_of(x[i * width + j]);
    return squares.data();
  };
  sum_columns(n, width, true, squared, out, contract);
  for (std::int64_t c = 0; c < width; ++c) out[c] = canonical(out[c]);
}

// Contiguous outer elements: tiles of columns, whose squares wait in as many rows as the sum reads at once.
template <class T>
void columns_of_squares(const T* x, T* out, const ReducedDims& outer, const ReducedDims& reduced,
                        const Contract& contract, int threads) {
  constexpr std::int64_t tile = tuned(1024, 64), few = tuned(64, 8);
  const std::int64_t width = outer.inner_size(), n = reduced.count;
  const bool follow = reduced.size.size() == 1 && reduced.stride[0] == width && width <= few;
  const auto sums = [&](std::int64_t first, std::int64_t place, std::int64_t count) {
    REPDL_ROUTE("sum of squares: columns", sizeof(T));
    const T* from = x + first;
    T* to = out + place;
    if (follow) return few_columns_of_squares(from, to, n, width, contract);
    const Scratch<T> squares(sum_rows_at_once * count);
    std::int64_t calls = 0;
    const auto squared = [&](std::int64_t i) {
      const T* given = from + reduced.offset(i);
      T* result = squares.data() + calls++ % sum_rows_at_once * count;
      for (std::int64_t c = 0; c < count; ++c) result[c] = square_of(given[c]);
      return result;
    };
    sum_columns(n, count, false, squared, to, contract);
    for (std::int64_t c = 0; c < count; ++c) to[c] = canonical(to[c]);
  };
  for_tiles_of_columns(outer, reduced, tile, squares_a_thread, threads, sums);
}

template <class T>
void rows_of_squares(const T* x, T* out, const ReducedDims& outer, const ReducedDims& reduced, const Contract& contract,
                     int threads) {
  parallel_for(outer.count, std::max<std::int64_t>(1, squares_a_thread / (reduced.count + 1)), threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t o = begin; o < end; ++o) {
                   REPDL_ROUTE("sum of squares: row", sizeof(T));
                   out[o] = canonical(squares_of_row(x + outer.offset(o), reduced, contract));
                 }
               });
}

template <class T>
void sum_of_squares(const Tensor& input, Ints dim, bool, const Contract& contract, const Tensor& output,
                    const ExecContext& exec) {
  const T* x = input.as<T>();
  T* out = output.as<T>();
  const ReducedDims outer(Dimensions(input, dim, false)), reduced(Dimensions(input, dim, true));
  const std::int64_t n = reduced.count, block = sum_block_of(contract, n);
  if (outer.count == 0) return;
  if (are_columns(outer, reduced)) return columns_of_squares(x, out, outer, reduced, contract, exec.threads);
  if (outer.count < exec.threads && n > block)
    return join_blocks(outer.count, n, contract, squares_a_thread, exec.threads, out,
                       [&](std::int64_t o, std::int64_t begin, std::int64_t end, T* partial) {
                         REPDL_ROUTE("sum of squares: few outputs", sizeof(T));
                         for (std::int64_t b = begin; b < end; ++b)
                           partial[b - begin] = squares_of_block(x + outer.offset(o), reduced, b * block,
                                                                 std::min(block, n - b * block), contract);
                       });
  rows_of_squares(x, out, outer, reduced, contract, exec.threads);
}

const AddKernel sum_of_squares_kernels = add_kernels<&sum_of_squares<float>, &sum_of_squares<double>>("sum_of_squares");

}  // namespace
}  // namespace repdl::cpu
