// y[i] = x[i] ** exponent, correctly rounded (pow.md).
//
//   for i < n:  (n) -> (n)
//     y[i] = pow(x[i], exponent)
#include "repdl/exact/pow.hpp"

#include "base/launch.hpp"
#include "repdl/backend.hpp"
#include "repdl/exact/powers.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads) raise(const float* x, float* y, std::int64_t n, double given) {
  const float exponent = static_cast<float>(given);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads;
  const auto loop = [&](const auto& power) {
    for (std::int64_t i = thread_index(); i < n; i += step) {
      if (i >= step) REPDL_ROUND("pow: elements of a thread");
      y[i] = canonical(power(x[i]));
    }
  };
  if (exact::with_plain_power(exponent, loop)) return;
  const exact::Pow f(exponent);
  loop([&](float a) { return exact::either(f, a); });
}

void pow(const Tensor& input, double exponent, const Tensor& output, const ExecContext& exec) {
  const Stream stream = stream_of(exec);
  const std::int64_t n = output.count();
  const std::int64_t blocks = std::min<std::int64_t>(ceil_div(n, threads), 32 * multiprocessors("pow", stream));
  launch("pow", raise, {blocks}, threads, 0, stream, input.as<float>(), output.as<float>(), n, exponent);
}

const AddKernel pow_kernel = add_kernel<&pow>("pow", DType::float32, Layout::flat);

}  // namespace
}  // namespace repdl::cuda
