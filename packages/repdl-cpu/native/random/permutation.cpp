// The order of n keys (random.md).
//
//   for i < n:  (n), key[i] = 64 bits of number offset + i
//     out = the i in ascending order of (key[i], i)
#include <utility>
#include <vector>

#include "random/words.hpp"
#include "repdl/random/draws.hpp"

namespace repdl::cpu {
namespace {

void random_permutation(const Tensor&, const Tensor& position, const Tensor& output, const Run& run) {
  const random::Position at(position);
  const std::int64_t n = output.count();
  std::vector<std::pair<std::uint64_t, std::int64_t>> keys(static_cast<std::size_t>(n));
  parallel_for(n, 1 << 14, run.threads, [&](std::int64_t begin, std::int64_t end) {
    std::uint64_t four[4];
    for (std::int64_t i = begin; i < end;) {
      const std::uint64_t number = at.offset + static_cast<std::uint64_t>(i);
      random::Keys()(at, number / 4, four);
      for (std::uint64_t j = number % 4; j < 4 && i < end; ++j, ++i) keys[static_cast<std::size_t>(i)] = {four[j], i};
    }
  });
  std::sort(keys.begin(), keys.end());
  for (std::int64_t i = 0; i < n; ++i) output.as<std::int64_t>()[i] = keys[static_cast<std::size_t>(i)].second;
}

const AddKernel permutation_kernel = add_kernel<&random_permutation>("random_permutation", DType::float32);

}  // namespace
}  // namespace repdl::cpu
