// y[i] = x[i] in another format, rounded once (cast.md).
//
//   for i < n:  (n) -> (n)
//     y[i] = round(x[i])
#include "base/launch.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/cast.hpp"

namespace repdl::cuda {
inline namespace cast_cu {

constexpr int threads = 256, each = 4;  // elements a thread

// All loads come before the stores, which may be to the same memory; past the end a thread's own first element is
// loaded again, which no other thread stores.
template <class From, class To>
__global__ void __launch_bounds__(threads) cast_elements(const From* x, To* y, std::int64_t n) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * each + threadIdx.x;
  if (first >= n) return;
  From loaded[each];
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const std::int64_t i = first + j * threads;
    loaded[j] = x[i < n ? i : first];
  }
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const std::int64_t i = first + j * threads;
    if (i < n) convert(loaded[j], y[i]);
  }
}

// f(elements of the tensor)
template <class F>
void with_format(const Tensor& tensor, const F& f) {
  switch (tensor.dtype) {
    case DType::float32: return f(tensor.as<float>());
    case DType::float64: return f(tensor.as<double>());
    case DType::bfloat16: return f(tensor.as<BFloat16>());
    case DType::float16: return f(tensor.as<Float16>());
    default: throw std::logic_error("cast: no floating-point dtype");
  }
}

template <class From, class To>
void launch_cast(const From* x, To* y, std::int64_t n, const Stream& stream) {
  launch("cast", cast_elements<From, To>, {ceil_div(n, threads * each)}, threads, 0, stream, x, y, n);
}

void cast(const Tensor& input, DType, const Tensor& output, const ExecContext& exec) {
  with_format(input, [&](const auto* x) {
    with_format(output, [&](auto* y) { launch_cast(x, y, output.count(), stream_of(exec)); });
  });
}

// One kernel for all formats; it is found by that of the input.
const AddKernel cast_kernel = add_kernel<&cast>("cast", DType::float32, Layout::flat);
const AddKernel cast_kernel_of_double = add_kernel<&cast>("cast", DType::float64, Layout::flat);

}  // namespace cast_cu
}  // namespace repdl::cuda
