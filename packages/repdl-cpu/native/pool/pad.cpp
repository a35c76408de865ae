// Padding that repeats elements, and its gradient: those that were copied several times get a sum (pad.md).
//
//   for i < outer, o < padded, j < inner:  (outer, n, inner) -> (outer, padded, inner)
//     out[i, o, j] = x[i, source[o], j]
//   for i < outer, o < padded, j < inner:  (outer, padded, inner) -> (outer, n, inner)
//     out[i, source[o], j] += grad[i, o, j], o ascending from +0
#include <algorithm>

#include "base/threads.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/shape/around.hpp"
#include "repdl/shape/padding.hpp"

namespace repdl::cpu {
namespace {

template <class T>
void pad(const Tensor& input, std::int64_t dim, std::int64_t left, std::int64_t right, std::string_view mode,
         const Tensor& output, const ExecContext& exec) {
  const Around of = around(input, dim);
  const PaddedSide side(mode, of.n, left, right);
  const std::int64_t padded = side.padded(), inner = of.inner;
  parallel_for(of.outer * padded, std::max<std::int64_t>(1, (1 << 15) / (inner + 1)), exec.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 while (begin < end) {
                   // What is not repeated is contiguous in both.
                   const std::int64_t i = begin / padded, o = begin % padded - left;
                   const std::int64_t rows = o >= 0 && o < of.n ? std::min(end - begin, of.n - o) : 1;
                   const T* from = input.as<T>() + (i * of.n + side.source(o)) * inner;
                   T* to = output.as<T>() + begin * inner;
                   for (std::int64_t j = 0; j < rows * inner; ++j) to[j] = canonical(from[j]);
                   begin += rows;
                 }
               });
}

template <class T>
void pad_backward(const Tensor& grads, std::int64_t dim, std::int64_t left, std::int64_t right, std::string_view mode,
                  const Tensor& output, const ExecContext& exec) {
  const Around of = around(output, dim);
  const std::int64_t n = of.n, inner = of.inner;
  const PaddedSide side(mode, n, left, right);
  const std::int64_t padded = side.padded();
  const T* grad = grads.as<T>();
  T* out = output.as<T>();
  parallel_for(of.outer, std::max<std::int64_t>(1, (1 << 14) / (padded * inner + 1)), exec.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   T* to = out + i * n * inner;
                   std::fill(to, to + n * inner, T(0));
                   for (std::int64_t o = 0; o < padded; ++o) {
                     const T* from = grad + (i * padded + o) * inner;
                     T* row = to + side.source(o - left) * inner;
                     for (std::int64_t j = 0; j < inner; ++j) row[j] += from[j];
                   }
                   for (std::int64_t j = 0; j < n * inner; ++j) to[j] = canonical(to[j]);
                 }
               });
}

const AddKernel pad_kernels = add_kernels<&pad<float>, &pad<double>>("pad", Layout::rows);
const AddKernel pad_backward_kernels =
    add_kernels<&pad_backward<float>, &pad_backward<double>>("pad_backward", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
