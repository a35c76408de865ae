// out[i] = input[i] ** exponent, or ** exponent[i], correctly rounded (pow.md).
#include "repdl/exact/pow.hpp"

#include "pointwise/elementwise.hpp"
#include "repdl/exact/powers.hpp"
#include "base/threads.hpp"

namespace repdl::cpu {
namespace {

constexpr std::int64_t pow_grain = 1 << 11;  // elements worth a thread

// The exponent is rounded, and its constants computed, where the environment is IEEE's.
void raise(const float* x, float* y, std::int64_t n, double given, int threads) {
  parallel_for(n, pow_grain, threads, [&](std::int64_t begin, std::int64_t end) {
    const float exponent = static_cast<float>(given);
    const auto loop = [&](const auto& power) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = canonical(power(x[i]));
    };
    if (!exact::with_plain_power(exponent, loop))
      exact::evaluate(exact::Pow(exponent), x + begin, y + begin, end - begin);
  });
}

}  // namespace

void bind_pow(py::module_& module) {
  module.def(
      "pow",
      [](Address x, Address y, std::int64_t n, double exponent, int threads) {
        raise(in(x), out(y), n, exponent, threads);
      },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "pow_tensor",
      [](Address x, Address e, Address y, const Sizes& size, const Sizes& x_stride, const Sizes& e_stride,
         int threads) {
        const auto f = [](float base, float exponent) { return exact::pow(base, exponent); };
        elementwise<2, float>(f, {in(x), in(e)}, out(y), Passes<2>(size, {x_stride, e_stride}), pow_grain, threads);
      },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace repdl::cpu
