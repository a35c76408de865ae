// C[i, j] = tree over chunks of chains fma(A[i, k], B[k, j], acc), plus bias[j].
//
//   for i < M, j < N:  (M, K) @ (K, N) -> (M, N)
//     C[i, j] = dot(A[i, :], B[:, j])
#include <algorithm>

#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "gemm/gemv.hpp"
#include "gemm/product.hpp"
#include "gemm/row_gemm.hpp"
#include "gemm/skinny_gemm.hpp"
#include "repdl/shape/products.hpp"

namespace repdl::cpu {
namespace {

// Which kernel computes a product; no bit depends on it.
enum class MatmulRoute { gemv, row, skinny, packed };

MatmulRoute matmul_route(std::int64_t rows, std::int64_t columns, std::int64_t K, std::int64_t b_k,
                         std::int64_t b_column, std::int64_t chunk) {
  if (rows == 1 && b_k == 1 && columns < Vec::width && fits_gemv(K, chunk)) return MatmulRoute::gemv;
  if (b_column == 1 && fits_row_gemm(rows, columns, K)) return MatmulRoute::row;
  if (rows <= max_skinny_rows && columns >= Vec::width && b_k == 1) return MatmulRoute::skinny;
  return MatmulRoute::packed;
}

// One column, whose elements follow each other, is the row of B' @ A': no bit depends on which factor is first.
void product_of_column(std::int64_t rows, std::int64_t K, std::int64_t chunk, const StridedPacker& a,
                       const StridedPacker& b, const Output& out) {
  REPDL_ROUTE("matmul: column");
  const Scratch<float> bias(out.column_bias ? rows : 0);
  Output row{out.data, rows};
  if (out.column_bias) row.column_bias = std::fill_n(bias.data(), rows, *out.column_bias) - rows;
  product(1, rows, K, chunk, b, a, row);
}

}  // namespace

void product(std::int64_t rows, std::int64_t columns, std::int64_t K, std::int64_t chunk, const StridedPacker& a,
             const StridedPacker& b, const Output& out) {
  if (columns == 1 && rows > 1 && out.ld == 1 &&
      matmul_route(1, rows, K, a.inner, a.outer, chunk) != MatmulRoute::packed)
    return product_of_column(rows, K, chunk, a, b, out);
  switch (matmul_route(rows, columns, K, b.inner, b.outer, chunk)) {
    case MatmulRoute::gemv:
      REPDL_ROUTE("matmul: gemv");
      return gemv(a.data, a.inner, b.data, b.outer, columns, K, chunk, out.column_bias, out.data);
    case MatmulRoute::row: return row_gemm(rows, a.data, a.outer, a.inner, b.data, b.inner, columns, K, chunk, out);
    case MatmulRoute::skinny:
      return skinny_gemm(rows, a.data, a.outer, a.inner, b.data, b.outer, columns, K, chunk, out);
    case MatmulRoute::packed:
      REPDL_ROUTE("matmul: packed");
      return gemm(rows, columns, K, chunk, a, b, out, Tiling(rows, columns, K));
  }
}

namespace {

// What threads share: whole products, or the rows or columns of each.
enum class MatmulShare { products, rows, columns };

constexpr std::int64_t matmul_grain = tuned(1 << 18, 1);  // fused multiply-adds worth a thread

MatmulShare matmul_share(const Products& args, std::int64_t batch, std::int64_t work, int threads) {
  if (batch >= threads || work < 2 * matmul_grain) return MatmulShare::products;
  return args.m >= args.n ? MatmulShare::rows : MatmulShare::columns;
}

// Operands with any strides, C contiguous; bias (N) or null.
class MatmulOperands {
 public:
  MatmulOperands(const float* a, const float* b, const float* bias, float* c, const Products& args, std::int64_t chunk)
      : a_(a), b_(b), bias_(bias), c_(c), args_(args), chunk_(chunk), a_batch_(args.offsets(args.a_batch)),
        b_batch_(args.offsets(args.b_batch)) {}

  // Rows i .. i + rows and columns j .. j + columns of one product.
  void block(std::int64_t index, std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns) const {
    const float* a = a_ + a_batch_[static_cast<std::size_t>(index)] + i * args_.a_row;
    const float* b = b_ + b_batch_[static_cast<std::size_t>(index)] + j * args_.b_column;
    Output out{c_ + (index * args_.m + i) * args_.n + j, args_.n};
    if (bias_) out.column_bias = bias_ + j;
    product(rows, columns, args_.k, chunk_, {a, args_.a_row, args_.a_k}, {b, args_.b_column, args_.b_k}, out);
  }

 private:
  const float *a_, *b_, *bias_;
  float* c_;
  const Products& args_;
  std::int64_t chunk_;
  std::vector<std::int64_t> a_batch_, b_batch_;
};

void products(const float* a, const float* b, const float* bias, float* c, const Products& args, std::int64_t chunk,
              int threads) {
  const std::int64_t m = args.m, n = args.n, batch = args.count(), work = m * n * std::max<std::int64_t>(args.k, 1);
  if (m == 0 || n == 0 || batch == 0) return;
  const MatmulOperands operands(a, b, bias, c, args, chunk);
  const MatmulShare share = matmul_share(args, batch, work, threads);
  if (share == MatmulShare::products) {
    REPDL_ROUTE("matmul: threads take products");
    return parallel_for(batch, std::max<std::int64_t>(1, matmul_grain / work), threads,
                        [&](std::int64_t begin, std::int64_t end) {
                          for (std::int64_t index = begin; index < end; ++index) operands.block(index, 0, m, 0, n);
                        });
  }
  const bool by_rows = share == MatmulShare::rows;
  const std::int64_t unit = by_rows ? max_rows : 2 * Vec::width, extent = by_rows ? m : n;
  const std::int64_t slices = (extent + unit - 1) / unit;
  for (std::int64_t index = 0; index < batch; ++index)
    parallel_for(slices, std::max<std::int64_t>(1, matmul_grain / (work / slices + 1)), threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   const std::int64_t first = begin * unit, count = std::min(extent, end * unit) - first;
                   if (by_rows) {
                     REPDL_ROUTE("matmul: threads take rows");
                     operands.block(index, first, count, 0, n);
                   } else {
                     REPDL_ROUTE("matmul: threads take columns");
                     operands.block(index, 0, m, first, count);
                   }
                 });
}

void matmul(const Tensor& input, const Tensor& mat2, bool transpose_a, bool transpose_b, const Contract& contract,
            const Tensor& output, const ExecContext& exec) {
  products(input.as<float>(), mat2.as<float>(), nullptr, output.as<float>(),
           Products(input, mat2, transpose_a, transpose_b, output), contract.dot_chunk, exec.threads);
}

void linear(const Tensor& input, const Tensor& weight, const Tensor& bias, const Contract& contract,
            const Tensor& output, const ExecContext& exec) {
  products(input.as<float>(), weight.as<float>(), contiguous_vector<float>(bias, exec), output.as<float>(),
           Products(input, weight, false, true, output), contract.dot_chunk, exec.threads);
}

const AddKernel matmul_kernel = add_kernel<&matmul>("matmul", DType::float32);
const AddKernel linear_kernel = add_kernel<&linear>("linear", DType::float32);

}  // namespace
}  // namespace repdl::cpu
