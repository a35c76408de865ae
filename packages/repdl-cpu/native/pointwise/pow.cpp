// output[i] = input[i] ** exponent, correctly rounded (pow.md).
#include "repdl/exact/pow.hpp"

#include "base/threads.hpp"
#include "repdl/backend.hpp"
#include "repdl/exact/powers.hpp"
#include "exact/double_vec.hpp"
#include "simd/row_loop_double.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t pow_grain = 1 << 11;  // elements worth a thread

void evaluate(float exponent, const float* x, float* y, std::int64_t n) {
  exact::evaluate(exact::Pow(exponent), y, n, x);
}
void evaluate(double exponent, const double* x, double* y, std::int64_t n) {
  row_loop_double(n, [=](std::int64_t i, auto part) {
    using exact::pow;
    part.store(y + i, canonical(pow(part.load(x + i), part.set1(exponent))));
  });
}

// The exponent is rounded, and its constants computed, where the environment is IEEE's.
template <class T>
void pow(const Tensor& input, double given, const Tensor& output, const ExecContext& exec) {
  const T* x = input.as<T>();
  T* y = output.as<T>();
  parallel_for(output.count(), pow_grain, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    const T exponent = static_cast<T>(given);
    const auto loop = [&](const auto& power) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = canonical(power(x[i]));
    };
    if (!exact::with_plain_power(exponent, loop)) evaluate(exponent, x + begin, y + begin, end - begin);
  });
}

const AddKernel pow_kernels = add_kernels<&pow<float>, &pow<double>>("pow", Layout::flat);

}  // namespace
}  // namespace repdl::cpu
