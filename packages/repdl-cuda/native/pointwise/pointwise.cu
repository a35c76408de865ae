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
template <bool Flat, class T, int N, class F>
__global__ void __launch_bounds__(threads) elements(F f, Operands<N> x, T* y, Shape<N> shape) {
  constexpr int count = each<Flat, F>;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * count + threadIdx.x;
#pragma unroll
  for (int j = 0; j < count; ++j) {
    const std::int64_t i = first + j * threads;
    if (i >= shape.count) return;
    const typename Shape<N>::Offsets offsets = Flat ? shape.run(i) : shape.offsets(i);
    y[i] = apply<T>(f, x, offsets.at, std::make_index_sequence<N>());
  }
}

struct Loop {
  template <template <class> class F, class T, std::size_t N, class... Options>
  static void run(const std::array<const Tensor*, N>& operands, const Tensor& output, const Run& run,
                  const Options&... options) {
    constexpr int n = static_cast<int>(N);
    Operands<n> x;
    for (int k = 0; k < n; ++k) x.at[k] = operands[k]->data;
    const Shape<n> shape(pointwise::Pass<n>(run.op, output, operands));
    const auto kernel = shape.flat() ? elements<true, T, n, F<T>> : elements<false, T, n, F<T>>;
    const int a_block = threads * (shape.flat() ? each<true, F<T>> : each<false, F<T>>);
    launch(run.op, kernel, {ceil_div(shape.count, a_block)}, threads, 0, stream_of(run), F<T>(options...), x,
           output.as<T>(), shape);
  }
};

const AddKernel pointwise_kernels = pointwise::add_functions<Loop>(pointwise::Functions());

}  // namespace
}  // namespace repdl::cuda
