// Poisson numbers (distributions.md).
//
//   for i < n:  (n) -> (n)
//     out[i] = Poisson number of rate[i], from the words of number offset + i
#include "base/launch.hpp"
#include "repdl/random/poisson.hpp"

namespace repdl::cuda {
inline namespace poisson_cu {

constexpr int threads = 128;

template <class T>
__global__ void __launch_bounds__(threads) draw_counts(random::Position at, const T* rate, T* out, std::int64_t count) {
  const std::int64_t i = thread_index();
  if (i >= count) return;
  const std::uint64_t number = at.offset + static_cast<std::uint64_t>(i);
  out[i] = static_cast<T>(random::Poisson()(at, number, static_cast<double>(rate[i])));
}

template <class T>
void poisson(const Tensor& rates, const Tensor& position, const Tensor& output, const ExecContext& exec) {
  launch(exec.op, draw_counts<T>, {ceil_div(output.count(), threads)}, threads, 0, stream_of(exec),
         random::Position(position), static_cast<const T*>(rates.as<T>()), output.as<T>(), output.count());
}

const AddKernel poisson_kernels = add_kernels<&poisson<float>, &poisson<double>>("poisson", Layout::rows);

}  // namespace poisson_cu
}  // namespace repdl::cuda
