// The product of the rows of equal index, column by column (index_sum.md).
//
//   for k < size:  (n, width), (n) -> (size, width)
//     out[k] = the product of values[i] over the i with index[i] = k, i ascending, by the tree of prod.md; 1 of none
#include <algorithm>

#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "reduce/terms_of_rows.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/contract/order.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t products_a_thread = tuned(1 << 14, 4);

// The tree of the rows values[place[i]], of which there is one at least.
template <class T>
void multiply_rows(const T* values, const std::int64_t* place, std::int64_t count, std::int64_t width, T* waiting,
                   T* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::copy(values + place[i] * width, values + (place[i] + 1) * width, out);
    const int level = tree_join(i, i + 1 == count, [&](int l) {
      for (std::int64_t c = 0; c < width; ++c) out[c] = repdl::mul(waiting[l * width + c], out[c]);
    });
    if (i + 1 < count) std::copy(out, out + width, waiting + level * width);
  }
}

template <class T>
void index_prod(const Tensor& values, const Tensor& index, std::int64_t size, const Contract&, const Tensor& output,
                const ExecContext& exec) {
  const std::int64_t n = index.count(), width = output.size[1];
  T* const out = output.as<T>();
  if (size == 0 || width == 0) return;
  const Scratch<std::int64_t> scratch(n + 1);
  std::int64_t* const places = scratch.data();
  const Terms<std::int64_t> terms(index.as<std::int64_t>(), n, size, TermRows<std::int64_t>{places, 1},
                                  [](std::int64_t i, std::int64_t* place) { *place = i; });
  const std::int64_t work = std::max<std::int64_t>(1, (n + size) / size * width);
  parallel_for(size, products_a_thread / work, exec.threads, [&](std::int64_t from, std::int64_t until) {
    const Scratch<T> waiting((tree_levels(n) + 1) * width);
    for (std::int64_t k = from; k < until; ++k) {
      T* const to = out + k * width;
      const std::int64_t count = terms.count(k);
      if (count == 0) {
        std::fill(to, to + width, T(1));
        continue;
      }
      multiply_rows(values.as<T>(), places + terms.begin(k), count, width, waiting.data(), to);
      for (std::int64_t c = 0; n > 1 && c < width; ++c) to[c] = canonical(to[c]);
    }
  });
}

const AddKernel index_prod_kernels = add_kernels<&index_prod<float>, &index_prod<double>>("index_prod", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
