// C[i, j] = tree over chunks of chains fma(A[i, k], B[k, j], acc), plus bias[j].
//
//   for i < M, j < N:  (M, K) @ (K, N) -> (M, N)
//     C[i, j] = dot(A[i, :], B[:, j])
#include <algorithm>

#include "gemm/gemv.hpp"
#include "gemm/skinny_gemm.hpp"
#include "repdl/shape/products.hpp"

namespace repdl::cpu {
namespace {

auto skinny_gemm_kernel(std::int64_t rows) {
  return rows == 1 ? skinny_gemm<1> : rows == 2 ? skinny_gemm<2> : rows == 3 ? skinny_gemm<3> : skinny_gemm<4>;
}

// Operands with any strides, C contiguous; bias (N) or null.
void products(const float* a, const float* b, const float* bias, float* c, const Products& args, std::int64_t dot_chunk,
              int threads) {
  const std::int64_t batch = args.count();
  const std::vector<std::int64_t> a_batch = args.offsets(args.a_batch), b_batch = args.offsets(args.b_batch);
  const std::int64_t m = args.m, n = args.n, work = m * n * std::max<std::int64_t>(args.k, 1);
  if (m == 0 || n == 0 || batch == 0) return;
  const auto product = [&](std::int64_t index, std::int64_t i, std::int64_t rows, std::int64_t j,
                           std::int64_t columns) {
    if (rows == 1 && args.b_k == 1 && fits_gemv(args.k, dot_chunk)) {
      REPDL_ROUTE("matmul: one row");
      return gemv(a + a_batch[index] + i * args.a_row, args.a_k, b + b_batch[index] + j * args.b_column, args.b_column,
                  columns, args.k, dot_chunk, bias ? bias + j : nullptr, c + index * m * n + i * n + j);
    }
    if (rows <= most_skinny_rows && columns >= Vec::width && args.b_k == 1) {
      const auto kernel = skinny_gemm_kernel(rows);
      Output out{c + index * m * n + i * n + j, n};
      if (bias) out.column_bias = bias + j;
      kernel(a + a_batch[index] + i * args.a_row, args.a_row, args.a_k, b + b_batch[index] + j * args.b_column,
             args.b_column, columns, args.k, dot_chunk, out);
      return;
    }
    REPDL_ROUTE("matmul: packed");
    const StridedPacker pack_a{a + a_batch[index] + i * args.a_row, args.a_row, args.a_k};
    const StridedPacker pack_b{b + b_batch[index] + j * args.b_column, args.b_column, args.b_k};
    Output out{c + index * m * n + i * n + j, n};
    if (bias) out.column_bias = bias + j;
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

void matmul(const Tensor& input, const Tensor& mat2, bool transpose_a, bool transpose_b, const Contract& contract,
            const Tensor& output, const Run& run) {
  products(input.as<float>(), mat2.as<float>(), nullptr, output.as<float>(),
           Products(input, mat2, transpose_a, transpose_b, output), contract.dot_chunk, run.threads);
}

void linear(const Tensor& input, const Tensor& weight, const Tensor& bias, const Contract& contract,
            const Tensor& output, const Run& run) {
  products(input.as<float>(), weight.as<float>(), side_by_side<float>(bias, run), output.as<float>(),
           Products(input, weight, false, true, output), contract.dot_chunk, run.threads);
}

const AddKernel matmul_kernel = add_kernel<&matmul>("matmul", DType::float32);
const AddKernel linear_kernel = add_kernel<&linear>("linear", DType::float32);

}  // namespace
}  // namespace repdl::cpu
