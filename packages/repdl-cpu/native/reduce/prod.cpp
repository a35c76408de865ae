// Products of rows by the tree of the contract (prod.md).
//
//   for r < rows:  (rows, n) -> (rows)
//     neighbours are multiplied, then neighbours of the products, until one is left; 1 of none
#include <algorithm>
#include <utility>

#include "base/scratch.hpp"
#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t factors_a_thread = tuned(1 << 14, 4);

// to[i] = x[2 i] * x[2 i + 1]; the last one alone if there is one. Returns how many there are.
template <class T>
std::int64_t multiply_neighbours(const T* x, std::int64_t n, T* to) {
  for (std::int64_t i = 0; i < n / 2; ++i) to[i] = repdl::mul(x[2 * i], x[2 * i + 1]);
  if (n % 2 != 0) to[n / 2] = x[n - 1];
  return (n + 1) / 2;
}

template <class T>
void prod(const Tensor& input, const Tensor& output, const ExecContext& exec) {
  const std::int64_t rows = output.count(), n = input.size[input.dims - 1];
  T* const out = output.as<T>();
  if (n == 0) return std::fill(out, out + rows, T(1));
  parallel_for(rows, factors_a_thread / n, exec.threads, [&](std::int64_t from, std::int64_t until) {
    const Scratch<T> scratch(n + 2);
    T *const first = scratch.data(), *const second = first + (n + 1) / 2;
    for (std::int64_t r = from; r < until; ++r) {
      const T* const x = input.as<T>() + r * n;
      if (n == 1) {
        out[r] = x[0];
        continue;
      }
      T *here = first, *next = second;
      std::int64_t left = multiply_neighbours(x, n, here);
      for (; left > 1; std::swap(here, next)) left = multiply_neighbours(here, left, next);
      out[r] = canonical(here[0]);
    }
  });
}

const AddKernel prod_kernels = add_kernels<&prod<float>, &prod<double>>("prod", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
