// y[i] = x[i] in another format, rounded once (cast.md).
//
//   for i < n:  (n) -> (n)
//     y[i] = round(x[i])
#include "base/launch.hpp"
#include "base/ops.hpp"
#include "repdl/contract/cast.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256, each = 4;  // elements a thread

enum class Format { float32, float64, bfloat16, float16 };

template <class From, class To>
__global__ void __launch_bounds__(threads) cast_elements(const From* x, To* y, std::int64_t n) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * each + threadIdx.x;
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const std::int64_t i = first + j * threads;
    if (i < n) convert(x[i], y[i]);
  }
}

// f(pointer of the format's type)
template <class F>
void with_format(int format, Address address, const F& f) {
  switch (static_cast<Format>(format)) {
    case Format::float32: return f(reinterpret_cast<float*>(address));
    case Format::float64: return f(reinterpret_cast<double*>(address));
    case Format::bfloat16: return f(reinterpret_cast<BFloat16*>(address));
    case Format::float16: return f(reinterpret_cast<Float16*>(address));
  }
}

template <class From, class To>
void run(const From* x, To* y, std::int64_t n, const Stream& stream) {
  launch("cast", cast_elements<From, To>, {ceil_div(n, threads * each)}, threads, 0, stream, x, y, n);
}

}  // namespace

void cast(Address x, Address y, int from, int to, std::int64_t n, const Stream& stream) {
  with_format(from, x,
              [&](const auto* input) { with_format(to, y, [&](auto* output) { run(input, output, n, stream); }); });
}

}  // namespace repdl::cuda
