// Sums of bags of rows of a table (index_sum.md).
//
//   for b < bags:  (V, width), (n), begins (bags + 1) -> (bags, width)
//     out[b] = sum of weight[index[i]], or of weight[index[i]] * factor[i], over begins[b] <= i < begins[b + 1]
//     without those of padding_idx, i ascending; divided by their number for a mean
#include <algorithm>
#include <vector>

#include "base/threads.hpp"
#include "base/tuned.hpp"
#include "reduce/few_terms.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t terms_a_bag_thread = tuned(1 << 14, 8);

// The rows of a bag, and what each is multiplied by.
template <class T>
struct Bag {
  std::vector<const T*> rows;
  std::vector<T> factors;

  std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }
};

template <class T>
void bag_sum(const Tensor& weight, const Tensor& index, const Tensor& begins, const Tensor& factors,
             std::int64_t length, std::int64_t padding_idx, bool, bool mean, const Contract& contract,
             const Tensor& output, const ExecContext& exec) {
  const std::int64_t bags = output.size[0], width = output.size[1], n = index.count();
  const auto *at = index.as<std::int64_t>(), *begin = begins.given ? begins.as<std::int64_t>() : nullptr;
  const T *table = weight.as<T>(), *factor = factors.given ? factors.as<T>() : nullptr;
  if (bags == 0 || width == 0) return;
  const std::int64_t work = std::max<std::int64_t>(1, n / bags * width);
  parallel_for(bags, terms_a_bag_thread / work, exec.threads, [&](std::int64_t from, std::int64_t until) {
    Bag<T> bag;
    for (std::int64_t b = from; b < until; ++b) {
      bag.rows.clear();
      bag.factors.clear();
      const std::int64_t first = begin ? begin[b] : b * length, end = begin ? begin[b + 1] : first + length;
      for (std::int64_t i = first; i < end; ++i) {
        if (at[i] == padding_idx) continue;
        bag.rows.push_back(table + at[i] * width);
        if (factor) bag.factors.push_back(factor[i]);
      }
      T* const to = output.as<T>() + b * width;
      if (factor)
        sum_terms_of_columns(bag.count(), width, contract, WeightedTerms<T>{bag.rows.data(), bag.factors.data()}, to);
      else
        sum_rows(bag.count(), width, in_list(bag.rows), to, contract);
      if (!mean) continue;
      const T count = static_cast<T>(std::max<std::int64_t>(1, bag.count()));
      for (std::int64_t c = 0; c < width; ++c) to[c] = canonical(to[c] / count);
    }
  });
}

const AddKernel bag_sum_kernels = add_kernels<&bag_sum<float>, &bag_sum<double>>("bag_sum", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
