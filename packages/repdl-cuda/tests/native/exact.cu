// What a GPU computes by pairs of floats, compared with the functions of doubles: test_planted.py edits the headers.
#include <algorithm>
#include <cstdint>

#include "check.hpp"
#include "repdl/exact/cos.hpp"
#include "repdl/exact/erf.hpp"
#include "repdl/exact/exp.hpp"
#include "repdl/exact/exp2.hpp"
#include "repdl/exact/expm1.hpp"
#include "repdl/exact/log.hpp"
#include "repdl/exact/log10.hpp"
#include "repdl/exact/log1p.hpp"
#include "repdl/exact/log2.hpp"
#include "repdl/exact/rsqrt.hpp"
#include "repdl/exact/sigmoid.hpp"
#include "repdl/exact/sin.hpp"
#include "repdl/exact/tanh.hpp"

using namespace check;
namespace exact = repdl::exact;

namespace {

constexpr int threads = 64;

template <float (*f)(float)>
__global__ void each(const float* x, float* y, int n) {
  for (int i = threadIdx.x; i < n; i += threads) y[i] = f(x[i]);
}

// Every 1021st argument.
template <float (*f)(float), float (*doubles)(float)>
void compare() {
  constexpr std::uint64_t stride = 1021;
  std::vector<float> x, expected;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += stride)
    x.push_back(exact::float_from_bits(static_cast<std::uint32_t>(bits)));
  for (const float argument : x) expected.push_back(doubles(argument));
  std::vector<float> y(x.size());
  repdl::cuda::launch("exact", each<f>, {1}, threads, 0, stream, x.data(), y.data(), static_cast<int>(x.size()));
  expect(same_bits(y, expected), "an exact function has other bits");
}

constexpr Case cases[] = {
    {"cos", compare<exact::cos, exact::cos_by_doubles>},
    {"erf", compare<exact::erf, exact::erf_by_doubles>},
    {"exp", compare<exact::exp, exact::exp_by_doubles>},
    {"exp2", compare<exact::exp2, exact::exp2_by_doubles>},
    {"expm1", compare<exact::expm1, exact::expm1_by_doubles>},
    {"log", compare<exact::log, exact::log_by_doubles>},
    {"log10", compare<exact::log10, exact::log10_by_doubles>},
    {"log1p", compare<exact::log1p, exact::log1p_by_doubles>},
    {"log2", compare<exact::log2, exact::log2_by_doubles>},
    {"rsqrt", compare<exact::rsqrt, exact::rsqrt_by_doubles>},
    {"sigmoid", compare<exact::sigmoid, exact::sigmoid_by_doubles>},
    {"tanh", compare<exact::tanh, exact::tanh_by_doubles>},
    {"sin", compare<exact::sin, exact::sin_by_doubles>},
};

}  // namespace

int main(int argc, char** argv) { return run_case(cases, argc, argv); }
