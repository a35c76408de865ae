// C[i, j] = tree over chunks of chains fma(A[i, k], B[k, j], acc), plus bias[j].
//
//   for i < M, j < N:  (M, K) @ (K, N) -> (M, N)
//     C[i, j] = dot(A[i, :], B[:, j])
#include <algorithm>

#include "base/bind.hpp"
#include "gemm/skinny_gemm.hpp"
#include "gemm/gemv.hpp"

namespace repdl::cpu {
namespace {

// One product of a batch: A (M, K), B (K, N) with any strides, C (M, N) contiguous.
struct MatmulArgs {
  std::int64_t m, n, k;
  std::int64_t a_row, a_k;
  std::int64_t b_k, b_column;
  const float* bias;  // (N) or null
};

auto skinny_gemm_kernel(std::int64_t rows) {
  return rows == 1 ? skinny_gemm<1> : rows == 2 ? skinny_gemm<2> : rows == 3 ? skinny_gemm<3> : skinny_gemm<4>;
}

// batch products; a_batch and b_batch hold the element offset of each one's operands.
void matmul(const float* a, const float* b, float* c, const MatmulArgs& args, std::int64_t batch,
            const std::int64_t* a_batch, const std::int64_t* b_batch, std::int64_t dot_chunk, int threads) {
  const std::int64_t m = args.m, n = args.n, work = m * n * std::max<std::int64_t>(args.k, 1);
  if (m == 0 || n == 0 || batch == 0) return;
  const auto product = [&](std::int64_t index, std::int64_t i, std::int64_t rows, std::int64_t j,
                           std::int64_t columns) {
    if (rows == 1 && args.b_k == 1 && fits_gemv(args.k, dot_chunk)) {
      REPDL_ROUTE("matmul: one row");
      return gemv(a + a_batch[index] + i * args.a_row, args.a_k, b + b_batch[index] + j * args.b_column, args.b_column,
                  columns, args.k, dot_chunk, args.bias ? args.bias + j : nullptr, c + index * m * n + i * n + j);
    }
    if (rows <= most_skinny_rows && columns >= Vec::width && args.b_k == 1) {
      const auto kernel = skinny_gemm_kernel(rows);
      Output out{c + index * m * n + i * n + j, n};
      if (args.bias) out.column_bias = args.bias + j;
      kernel(a + a_batch[index] + i * args.a_row, args.a_row, args.a_k, b + b_batch[index] + j * args.b_column,
             args.b_column, columns, args.k, dot_chunk, out);
      return;
    }
    REPDL_ROUTE("matmul: packed");
    const StridedPacker pack_a{a + a_batch[index] + i * args.a_row, args.a_row, args.a_k};
    const StridedPacker pack_b{b + b_batch[index] + j * args.b_column, args.b_column, args.b_k};
    Output out{c + index * m * n + i * n + j, n};
    if (args.bias) out.column_bias = args.bias + j;
    gemm(rows, columns, args.k, dot_chunk, pack_a, pack_b, out, Tiling(rows, columns, args.k));
  };
  constexpr std::int64_t grain = 1 << 18;  // fused multiply-adds worth a thread
  if (batch >= threads || work < 2 * grain) {
    REPDL_ROUTE("matmul: threads take products");
    parallel_for(batch, std::max<std::int64_t>(1, grain / work), threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t index = begin; index < end; ++index) product(index, 0, m, 0, n);
    });
    return;
  }
  // Few large products: threads take slices of the longer side of each.
  const bool by_rows = m >= n;
  const std::int64_t unit = by_rows ? max_rows : 2 * Vec::width, extent = by_rows ? m : n;
  const std::int64_t slices = (extent + unit - 1) / unit;
  for (std::int64_t index = 0; index < batch; ++index)
    parallel_for(slices, std::max<std::int64_t>(1, grain / (work / slices + 1)), threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   const std::int64_t first = begin * unit, count = std::min(extent, end * unit) - first;
                   if (by_rows) {
                     REPDL_ROUTE("matmul: threads take rows");
                     product(index, first, count, 0, n);
                   } else {
                     REPDL_ROUTE("matmul: threads take columns");
                     product(index, 0, m, first, count);
                   }
                 });
}

}  // namespace

template <>
void bind_matmul<float>(py::module_& module) {
  module.def(
      "matmul",
      [](Address a, Address b, Address c, Address bias, std::int64_t m, std::int64_t n, std::int64_t k,
         std::int64_t a_row, std::int64_t a_k, std::int64_t b_k, std::int64_t b_column, const Sizes& a_batch,
         const Sizes& b_batch, std::int64_t dot_chunk, int threads) {
        const MatmulArgs args{m, n, k, a_row, a_k, b_k, b_column, in(bias)};
        matmul(in(a), in(b), out(c), args, static_cast<std::int64_t>(a_batch.size()), a_batch.data(), b_batch.data(),
               dot_chunk, threads);
      },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace repdl::cpu
