// output[i] = input[i] in another format, rounded once (cast.md).
//
//   for i < n:  (n) -> (n)
//     output[i] = round(input[i])
#include "base/threads.hpp"
#include "repdl/backend.hpp"
#include "repdl/contract/cast.hpp"

namespace repdl::cpu {
namespace {

template <class From, class To>
void convert_all(const From* x, To* y, std::int64_t n, int threads) {
  parallel_for(n, 1 << 15, threads, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) convert(x[i], y[i]);
  });
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

void cast(const Tensor& input, DType, const Tensor& output, const ExecContext& exec) {
  with_format(input, [&](const auto* x) {
    with_format(output, [&](auto* y) { convert_all(x, y, output.count(), exec.threads); });
  });
}

// One kernel for all formats; it is found by that of the input.
const AddKernel cast_kernel = add_kernel<&cast>("cast", DType::float32, Layout::flat);
const AddKernel cast_kernel_of_double = add_kernel<&cast>("cast", DType::float64, Layout::flat);

}  // namespace
}  // namespace repdl::cpu
