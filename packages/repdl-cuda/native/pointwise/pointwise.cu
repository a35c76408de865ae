// out[i] = f(a[i], b[i], ...): the loop around every pointwise function (repdl/pointwise/functions.hpp).
//
//   for i over the broadcast shape:  (...), (...) -> (...)
//     out[i] = f(a[i], b[i], ...)
#include "base/launch.hpp"
#include "base/strides.hpp"
#include "repdl/pointwise/entry.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256;

template <int N>
struct Operands {
  const void* at[N];
};

// f of element i, which lies at offset[k] in operand k.
template <class T, class F, int N, std::size_t... I>
__device__ T apply(const F& f, const Operands<N>& x, const std::int64_t (&offset)[N], std::index_sequence<I...>) {
  using Types = pointwise::Parameters<F>;
  return canonical(f(static_cast<const typename Types::template at<I>*>(x.at[I])[offset[I]]...));
}

// Elements a thread: several loads on their way keep the memory busy, unless f is long.
template <bool Flat, class F>
constexpr int each = Flat && !F::costly ? 4 : 1;

// Flat: one stride an operand, no division.
// The options are rounded here, as the environment of the host is not known to be IEEE's.
template <bool Flat, class T, int N, class F, class... Options>
__global__ void __launch_bounds__(threads) elements(Operands<N> x, T* y, Shape<N> shape, Options... options) {
  constexpr int count = each<Flat, F>;
  const F f(options...);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * count + threadIdx.x;
#pragma unroll
  for (int j = 0; j < count; ++j) {
    const std::int64_t i = first + j * threads;
    if (i >= shape.count) return;
    const typename Shape<N>::Offsets offsets = Flat ? shape.run(i) : shape.offsets(i);
    y[i] = apply<T>(f, x, offsets.at, std::make_index_sequence<N>());
  }
}

// An option as kernels take it.
template <class F, class Option>
auto value_of(const Option& option) {
  if constexpr (std::is_same_v<Option, std::string_view>)
    return F::flag(option);
  else
    return option;
}

struct Loop {
  static constexpr Layout layout = Layout::strided;

  template <template <class> class F, class T, std::size_t N, class... Options>
  static void run(const std::array<const Tensor*, N>& operands, const Tensor& output, const Run& run,
                  const Options&... options) {
    constexpr int n = static_cast<int>(N);
    Operands<n> x;
    for (int k = 0; k < n; ++k) x.at[k] = operands[k]->data;
    const Shape<n> shape(pointwise::Pass<n>(run.op, output, operands));
    const auto kernel = shape.flat() ? elements<true, T, n, F<T>, decltype(value_of<F<T>>(options))...>
                                     : elements<false, T, n, F<T>, decltype(value_of<F<T>>(options))...>;
    const int a_block = threads * (shape.flat() ? each<true, F<T>> : each<false, F<T>>);
    launch(run.op, kernel, {ceil_div(shape.count, a_block)}, threads, 0, stream_of(run), x, output.as<T>(), shape,
           value_of<F<T>>(options)...);
  }
};

const AddKernel pointwise_kernels = pointwise::add_functions<Loop>(pointwise::Functions());

}  // namespace
}  // namespace repdl::cuda
