// y[b] = A[b] @ B[b], plus a bias for linear (matmul.md, linear.md); gemm.hpp has the loop.
//
//   for each b, i < m, j < n:  (batch, m, k), (batch, k, n) -> (batch, m, n)
//     y[b, i, j] = dot of A[b, i, :] and B[b, :, j]  (+ bias[j])
#include "gemm/gemm_run.hpp"
#include "gemm/strided.hpp"
#include "repdl/shape/products.hpp"

namespace repdl::cuda {
inline namespace matmul_cu {

template <class T>
void products(const Products& p, const Tensor& a, const Tensor& b, const Tensor& bias, const Contract& contract,
              const Tensor& output, const ExecContext& exec) {
  const Stream stream = stream_of(exec);
  const GemmPlan plan = plan_gemm<T>(exec.op, p.m, p.n, p.k, p.count(), contract.dot_chunk, wanted_tile(), stream);
  run_gemm<T>(exec.op, plan, Strided<T>(exec.op, a.as<T>(), p.batch, p.a_batch, p.m, p.a_row, p.a_k),
              Strided<T>(exec.op, b.as<T>(), p.batch, p.b_batch, p.n, p.b_column, p.b_k),
              Rows<T>(output.as<T>(), bias, p.m, p.n), exec.workspace<T>(plan.work()), stream);
}

template <class T>
void matmul(const Tensor& input, const Tensor& mat2, bool transpose_a, bool transpose_b, const Contract& contract,
            const Tensor& output, const ExecContext& exec) {
  products<T>(Products(input, mat2, transpose_a, transpose_b, output), input, mat2, {}, contract, output, exec);
}

template <class T>
void linear(const Tensor& input, const Tensor& weight, const Tensor& bias, const Contract& contract,
            const Tensor& output, const ExecContext& exec) {
  products<T>(Products(input, weight, false, true, output), input, weight, bias, contract, output, exec);
}

const AddKernel matmul_kernels = add_kernels<&matmul<float>, &matmul<double>>("matmul");
const AddKernel linear_kernels = add_kernels<&linear<float>, &linear<double>>("linear");

}  // namespace matmul_cu
}  // namespace repdl::cuda
