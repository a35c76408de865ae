// Running sums, and linear recurrences (scan.md).
//
//   for o < outer, c < inner:  (outer, n, inner) -> (outer, n, inner)
//     cumsum: chain += x[i], out[i] = carry + chain; a block's last output is the carry of the next one
//     linear_scan: out[0] = term[0], out[i] = fma(factor[i], out[i - 1], term[i])
//
// A thread has a chain: the order is one after the other.
#include "base/launch.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/shape/around.hpp"

namespace repdl::cuda {
inline namespace scan_cu {

constexpr int threads = 128;

template <class T>
__global__ void __launch_bounds__(threads) running_sums(const T* x, T* out, Around at, std::int64_t block) {
  const std::int64_t chain_index = thread_index();
  if (chain_index >= at.outer * at.inner) return;
  const std::int64_t begin = chain_index / at.inner * at.n * at.inner + chain_index % at.inner;
  T chain = 0, carry = 0;
  for (std::int64_t i = 0, left = block; i < at.n; ++i) {
    if (left == 0) {
      carry = out[begin + (i - 1) * at.inner];
      chain = 0;
      left = block;
    }
    --left;
    chain = chain + x[begin + i * at.inner];
    out[begin + i * at.inner] = canonical(carry + chain);
  }
}

template <class T>
__global__ void __launch_bounds__(threads) recurrences(const T* factor, const T* term, T* out, Around at) {
  const std::int64_t chain_index = thread_index();
  if (chain_index >= at.outer * at.inner) return;
  const std::int64_t begin = chain_index / at.inner * at.n * at.inner + chain_index % at.inner;
  T last = canonical(term[begin]);
  out[begin] = last;
  for (std::int64_t i = begin + at.inner; i < begin + at.n * at.inner; i += at.inner) {
    last = canonical(repdl::fma(factor[i], last, term[i]));
    out[i] = last;
  }
}

template <class T>
void cumsum(const Tensor& input, std::int64_t dim, const Contract& contract, const Tensor& output,
            const ExecContext& exec) {
  const Around at = around(input, dim);
  if (at.count() == 0) return;
  launch(exec.op, running_sums<T>, {ceil_div(at.outer * at.inner, threads)}, threads, 0, stream_of(exec), input.as<T>(),
         output.as<T>(), at, contract.sum_block == 0 ? at.n : contract.sum_block);
}

template <class T>
void linear_scan(const Tensor& factor, const Tensor& term, std::int64_t dim, const Tensor& output,
                 const ExecContext& exec) {
  const Around at = around(term, dim);
  if (at.count() == 0) return;
  launch(exec.op, recurrences<T>, {ceil_div(at.outer * at.inner, threads)}, threads, 0, stream_of(exec), factor.as<T>(),
         term.as<T>(), output.as<T>(), at);
}

const AddKernel cumsum_kernels = add_kernels<&cumsum<float>, &cumsum<double>>("cumsum", Layout::rows);
const AddKernel linear_scan_kernels =
    add_kernels<&linear_scan<float>, &linear_scan<double>>("linear_scan", Layout::rows);

}  // namespace scan_cu
}  // namespace repdl::cuda
