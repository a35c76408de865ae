// output[i] = input[i] ** exponent, correctly rounded (pow.md).
#include "repdl/exact/pow.hpp"

#include "base/threads.hpp"
#include "repdl/backend.hpp"
#include "repdl/exact/powers.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t pow_grain = 1 << 11;  // elements worth a thread

// The exponent is rounded, and its constants computed, where the environment is IEEE's.
void pow(const Tensor& input, double given, const Tensor& output, const ExecContext& exec) {
  const float* x = input.as<float>();
  float* y = output.as<float>();
  parallel_for(output.count(), pow_grain, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    const float exponent = static_cast<float>(given);
    const auto loop = [&](const auto& power) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = canonical(power(x[i]));
    };
    if (!exact::with_plain_power(exponent, loop))
      exact::evaluate(exact::Pow(exponent), x + begin, y + begin, end - begin);
  });
}

const AddKernel pow_kernel = add_kernel<&pow>("pow", DType::float32, Layout::flat);

}  // namespace
}  // namespace repdl::cpu
