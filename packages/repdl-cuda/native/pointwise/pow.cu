// y[i] = x[i] ** exponent, correctly rounded (pow.md).
//
//   for i < n:  (n) -> (n)
//     y[i] = pow(x[i], exponent)
#include "repdl/exact/pow.hpp"

#include "base/rounded_on_host.hpp"
#include "pointwise/elements.hpp"
#include "repdl/backend.hpp"
#include "repdl/exact/powers.hpp"

namespace repdl::cuda {
namespace {

// A power of few operations (exact/powers.hpp).
template <class F>
struct Plain : pointwise::Arithmetic {
  __device__ float operator()(float x) const { return F()(x); }
};

// Any other: pow.hpp's of one exponent.
struct Power : pointwise::Scalars {
  exact::Pow fast;
  explicit Power(double exponent) : fast(static_cast<float>(exponent)) {}
  __device__ float operator()(float x) const {
    std::uint32_t uncertain = 0;
    const float result = fast.fast(x, uncertain);
    return uncertain == 0 ? result : exact::pow_accurate(x, fast.p);
  }
};

void pow(const Tensor& input, double exponent, const Tensor& output, const ExecContext& exec) {
  const std::array<const Tensor*, 1> operands = {&input};
  const Power power = rounded_on_host<Power>(exponent);
  const bool plain = exact::with_plain_power(power.fast.p, [&](const auto& f) {
    run_elements<float>(exec, operands, output, Plain<std::decay_t<decltype(f)>>());
  });
  if (!plain) run_elements<float>(exec, operands, output, power);
}

const AddKernel pow_kernel = add_kernel<&pow>("pow", DType::float32, Layout::flat);

}  // namespace
}  // namespace repdl::cuda
