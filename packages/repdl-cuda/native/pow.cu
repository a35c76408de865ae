// y[i] = x[i] ** exponent, correctly rounded (pow.md): repdl/exact/pow.hpp.
//
//   for i < n:  (n) -> (n)
//     y[i] = pow(x[i], exponent)
#include "repdl/exact/pow.hpp"

#include "launch.hpp"
#include "ops.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads) raise(const float* x, float* y, std::int64_t n, double given) {
  const float exponent = static_cast<float>(given);
  const exact::Pow f(exponent);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t i = thread_index(); i < n; i += step) {
    // A square is one rounding, and has the same special values.
    y[i] = canonical(exponent == 2.0f ? mul(x[i], x[i]) : exact::either(f, x[i]));
  }
}

}  // namespace

void pow(Address x, Address y, std::int64_t n, double exponent, const Stream& stream) {
  const std::int64_t blocks = std::min<std::int64_t>(ceil_div(n, threads), 32 * multiprocessors("pow", stream));
  launch("pow", raise, {blocks}, threads, 0, stream, in<float>(x), out<float>(y), n, exponent);
}

}  // namespace repdl::cuda
