// y[i] = x[i] ** exponent, correctly rounded (pow.md).
//
//   for i < n:  (n) -> (n)
//     y[i] = pow(x[i], exponent)
#include "repdl/exact/pow.hpp"

#include "base/rounded_on_host.hpp"
#include "pointwise/elements.hpp"
#include "repdl/backend.hpp"
#include "repdl/exact/doubles.hpp"
#include "repdl/exact/powers.hpp"

namespace repdl::cuda {
inline namespace pow_cu {

// A power of few operations (exact/powers.hpp).
template <class F, class T>
struct Plain : pointwise::Arithmetic {
  __device__ T operator()(T x) const { return F()(x); }
};

template <class T>
struct Power;

// Any other: pow.hpp's of one exponent.
template <>
struct Power<float> : pointwise::Scalars {
  exact::Pow fast;
  explicit Power(double exponent) : fast(static_cast<float>(exponent)) {}
  __device__ float operator()(float x) const {
    std::uint32_t uncertain = 0;
    const float result = fast.fast(x, uncertain);
    return uncertain == 0 ? result : exact::pow_accurate(x, fast.p);
  }
  float exponent() const { return fast.p; }
};

template <>
struct Power<double> : pointwise::Scalars {
  double p;
  explicit Power(double exponent) : p(exponent) {}
  __device__ double operator()(double x) const { return exact::pow(x, p); }
  double exponent() const { return p; }
};

template <class T>
void pow(const Tensor& input, double exponent, const Tensor& output, const ExecContext& exec) {
  const std::array<const Tensor*, 1> operands = {&input};
  const auto power = rounded_on_host<Power<T>>(exponent);
  const bool plain = exact::with_plain_power(power.exponent(), [&](const auto& f) {
    run_elements<T>(exec, operands, output, Plain<std::decay_t<decltype(f)>, T>());
  });
  if (!plain) run_elements<T>(exec, operands, output, power);
}

const AddKernel pow_kernels = add_kernels<&pow<float>, &pow<double>>("pow", Layout::flat);

}  // namespace pow_cu
}  // namespace repdl::cuda
