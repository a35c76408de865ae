// The largest of the rows of equal index, column by column (index_sum.md).
//
//   for k < size:  (n, width), (n) -> (size, width)
//     out[k] = the first of the largest of values[i] over the i with index[i] = k, i ascending; NaN is larger than
//     everything, and -inf the largest of none
#include <algorithm>
#include <limits>

#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "repdl/backend.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t places_a_share = tuned(1 << 14, 4);

template <class T>
[[gnu::always_inline]] inline T first_larger(T known, T x) {
  return (x > known) | ((x != x) & (known == known)) ? x : known;
}

// Rows of one element: shares of them, for which every thread looks at all places.
template <class T>
void largest_elements(const T* x, const std::int64_t* index, std::int64_t n, std::int64_t from, std::int64_t until,
                      T* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t k = index[i];
    if (k >= from && k < until) out[k] = first_larger(out[k], x[i]);
  }
}

template <class T>
void index_amax(const Tensor& values, const Tensor& index, std::int64_t size, const Tensor& output,
                const ExecContext& exec) {
  const std::int64_t n = index.count(), width = output.size[1];
  const T* x = values.as<T>();
  const auto* at = index.as<std::int64_t>();
  T* out = output.as<T>();
  if (size == 0 || width == 0) return;
  const std::int64_t work = std::max<std::int64_t>(1, n / size * width);
  parallel_for(size, places_a_share / work, exec.threads, [&](std::int64_t from, std::int64_t until) {
    std::fill(out + from * width, out + until * width, -std::numeric_limits<T>::infinity());
    if (width == 1) return largest_elements(x, at, n, from, until, out);
    for (std::int64_t i = 0; i < n; ++i) {
      if (at[i] < from || at[i] >= until) continue;
      T* const row = out + at[i] * width;
      for (std::int64_t c = 0; c < width; ++c) row[c] = first_larger(row[c], x[i * width + c]);
    }
  });
}

const AddKernel index_amax_kernels = add_kernels<&index_amax<float>, &index_amax<double>>("index_amax", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
