// Poisson numbers (distributions.md).
//
//   for i < n:  (n) -> (n)
//     out[i] = Poisson number of rate[i], from the words of number offset + i
#include "base/threads.hpp"
#include "repdl/random/poisson.hpp"

namespace repdl::cpu {
namespace {

template <class T>
void poisson(const Tensor& rates, const Tensor& position, const Tensor& output, const ExecContext& exec) {
  const random::Position at(position);
  const T* rate = rates.as<T>();
  T* out = output.as<T>();
  parallel_for(output.count(), 1 << 10, exec.threads, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t number = at.offset + static_cast<std::uint64_t>(i);
      out[i] = static_cast<T>(random::Poisson()(at, number, static_cast<double>(rate[i])));
    }
  });
}

const AddKernel poisson_kernels = add_kernels<&poisson<float>, &poisson<double>>("poisson", Layout::rows);

}  // namespace
}  // namespace repdl::cpu
