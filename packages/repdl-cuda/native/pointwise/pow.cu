// y[i] = x[i] ** exponent, correctly rounded (pow.md).
//
//   for i < n:  (n) -> (n)
//     y[i] = pow(x[i], exponent)
#include "repdl/exact/pow.hpp"

#include "base/launch.hpp"
#include "base/ops.hpp"
#include "repdl/exact/powers.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads) raise(const float* x, float* y, std::int64_t n, double given) {
  const float exponent = static_cast<float>(given);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads;
  const auto loop = [&](const auto& power) {
    for (std::int64_t i = thread_index(); i < n; i += step) y[i] = canonical(power(x[i]));
  };
  if (exact::with_plain_power(exponent, loop)) return;
  const exact::Pow f(exponent);
  loop([&](float a) { return exact::either(f, a); });
}

}  // namespace

void pow(Address x, Address y, std::int64_t n, double exponent, const Stream& stream) {
  const std::int64_t blocks = std::min<std::int64_t>(ceil_div(n, threads), 32 * multiprocessors("pow", stream));
  launch("pow", raise, {blocks}, threads, 0, stream, in<float>(x), out<float>(y), n, exponent);
}

}  // namespace repdl::cuda
