// y[b] = A[b] @ B[b], plus a bias for linear (matmul.md, linear.md); gemm.hpp has the loop.
//
//   for each b, i < m, j < n:  (batch, m, k), (batch, k, n) -> (batch, m, n)
//     y[b, i, j] = dot of A[b, i, :] and B[b, :, j]  (+ bias[j])
#include "gemm/gemm_run.hpp"
#include "base/ops.hpp"
#include "gemm/strided.hpp"

namespace repdl::cuda {
namespace {

std::int64_t product(const Sizes& sizes) {
  std::int64_t result = 1;
  for (const std::int64_t size : sizes) result *= size;
  return result;
}

}  // namespace

template <class T>
std::int64_t matmul_work(const Sizes& batch, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t chunk,
                         int tile, const Stream& stream) {
  const GemmPlan plan = plan_gemm<T>("matmul", m, n, k, product(batch), chunk, tile, stream);
  return plan.levels_size + plan.parts_size;
}

template <class T>
void matmul(Address a, Address b, Address y, Address bias, Address work, const Sizes& batch, const Sizes& a_stride,
            const Sizes& b_stride, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t chunk, int tile,
            const Stream& stream) {
  const GemmPlan plan = plan_gemm<T>("matmul", m, n, k, product(batch), chunk, tile, stream);
  const auto operand = [&](Address address, const Sizes& stride, std::int64_t rows, int row, int inner) {
    const std::size_t dims = batch.size();
    return Strided<T>("matmul", address, batch, Sizes(stride.begin(), stride.begin() + dims), rows, stride[dims + row],
                      stride[dims + inner]);
  };
  run_gemm<T>("matmul", plan, operand(a, a_stride, m, 0, 1), operand(b, b_stride, n, 1, 0), Rows<T>(y, bias, m, n),
              work, stream);
}

#define REPDL_MATMUL(T)                                                                                           \
  template std::int64_t matmul_work<T>(const Sizes&, std::int64_t, std::int64_t, std::int64_t, std::int64_t, int, \
                                       const Stream&);                                                            \
  template void matmul<T>(Address, Address, Address, Address, Address, const Sizes&, const Sizes&, const Sizes&,  \
                          std::int64_t, std::int64_t, std::int64_t, std::int64_t, int, const Stream&);
REPDL_MATMUL(float)
REPDL_MATMUL(double)

}  // namespace repdl::cuda
