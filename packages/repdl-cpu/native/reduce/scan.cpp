// Running sums, and linear recurrences (scan.md).
//
//   for o < outer, c < inner:  (outer, n, inner) -> (outer, n, inner)
//     cumsum: chain += x[i], out[i] = carry + chain; a block's last output is the carry of the next one
//     linear_scan: out[0] = term[0], out[i] = fma(factor[i], out[i - 1], term[i])
#include <algorithm>

#include "base/threads.hpp"
#include "base/routes.hpp"
#include "base/tuned.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/shape/around.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t most_columns = tuned(64, 4);  // chains that a task computes side by side

// task(o, first column, columns) for all of them; each is one thread's.
template <class Task>
void for_chains(const Around& at, int threads, const Task& task) {
  const std::int64_t tiles = (at.inner + most_columns - 1) / most_columns;
  const std::int64_t work = std::max<std::int64_t>(1, at.n * std::min(at.inner, most_columns));
  parallel_for(at.outer * tiles, std::max<std::int64_t>(1, (1 << 14) / work), threads,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t t = begin; t < end; ++t) {
                   const std::int64_t first = t % tiles * most_columns;
                   if (first > 0) REPDL_ROUTE("scan: second tile of columns");
                   task(t / tiles, first, std::min(most_columns, at.inner - first));
                 }
               });
}

template <class T>
void cumsum(const Tensor& input, std::int64_t dim, const Contract& contract, const Tensor& output,
            const ExecContext& exec) {
  const Around at = around(input, dim);
  if (at.count() == 0) return;
  const std::int64_t block = contract.sum_block == 0 ? at.n : contract.sum_block;
  for_chains(at, exec.threads, [&](std::int64_t o, std::int64_t first, std::int64_t columns) {
    const T* x = input.as<T>() + o * at.n * at.inner + first;
    T* out = output.as<T>() + o * at.n * at.inner + first;
    T chain[most_columns], carry[most_columns] = {};
    for (std::int64_t begin = 0; begin < at.n; begin += block) {
      std::fill(chain, chain + columns, T(0));
      for (std::int64_t i = begin; i < std::min(at.n, begin + block); ++i)
        for (std::int64_t c = 0; c < columns; ++c) {
          chain[c] += x[i * at.inner + c];
          out[i * at.inner + c] = canonical(carry[c] + chain[c]);
        }
      const std::int64_t last = std::min(at.n, begin + block) - 1;
      for (std::int64_t c = 0; c < columns; ++c) carry[c] = out[last * at.inner + c];
    }
  });
}

template <class T>
void linear_scan(const Tensor& factor, const Tensor& term, std::int64_t dim, const Tensor& output,
                 const ExecContext& exec) {
  const Around at = around(term, dim);
  if (at.count() == 0) return;
  for_chains(at, exec.threads, [&](std::int64_t o, std::int64_t first, std::int64_t columns) {
    const std::int64_t begin = o * at.n * at.inner + first;
    const T *a = factor.as<T>() + begin, *b = term.as<T>() + begin;
    T* out = output.as<T>() + begin;
    for (std::int64_t c = 0; c < columns; ++c) out[c] = canonical(b[c]);
    for (std::int64_t i = at.inner; i < at.n * at.inner; i += at.inner)
      for (std::int64_t c = 0; c < columns; ++c)
        out[i + c] = canonical(repdl::fma(a[i + c], out[i - at.inner + c], b[i + c]));
  });
}

const AddKernel cumsum_kernels = add_kernels<&cumsum<float>, &cumsum<double>>("cumsum", Layout::rows);
const AddKernel linear_scan_kernels =
    add_kernels<&linear_scan<float>, &linear_scan<double>>("linear_scan", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
