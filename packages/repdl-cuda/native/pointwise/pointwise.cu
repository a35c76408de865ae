// out[i] = f(a[i], b[i], ...): the loop around every pointwise function (repdl/pointwise/functions.hpp).
//
//   for i over the broadcast shape:  (...), (...) -> (...)
//     out[i] = f(a[i], b[i], ...)
#include "base/launch.hpp"
#include "base/rounded_on_host.hpp"
#include "base/strides.hpp"
#include "repdl/pointwise/entry.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256;

template <int N>
struct Operands {
  const void* at[N];
};

// Operand k of some elements of a thread.
template <std::size_t k, class Operand, int count>
struct Loaded {
  Operand of[count];
};

template <class F, int count, class Indices>
struct Batch;
template <class F, int count, std::size_t... I>
struct Batch<F, count, std::index_sequence<I...>>
    : Loaded<I, typename pointwise::Parameters<F>::template at<I>, count>... {
  template <std::size_t k>
  using At = Loaded<k, typename pointwise::Parameters<F>::template at<k>, count>;

  // Element j lies at offset[k] in operand k.
  template <int N>
  __device__ void load(int j, const Operands<N>& x, const std::int64_t (&offset)[N]) {
    ((At<I>::of[j] = static_cast<const typename pointwise::Parameters<F>::template at<I>*>(x.at[I])[offset[I]]), ...);
  }
  __device__ auto apply(const F& f, int j) const { return f(At<I>::of[j]...); }
};

// Elements a thread: several loads on their way keep the memory busy, unless f is long.
template <bool Flat, class F>
constexpr int each = Flat && !F::costly ? 4 : 1;

// Flat: one stride an operand, no division. All loads come before the stores, which may be to the same memory; past the
// end a thread's own first element is loaded again, which no other thread stores.
// f comes with its options rounded: no thread converts a double.
template <bool Flat, class T, int N, class F>
__global__ void __launch_bounds__(threads) elements(Operands<N> x, T* y, Shape<N> shape, F f) {
  constexpr int count = each<Flat, F>;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * count + threadIdx.x;
  if (first >= shape.count) return;
  Batch<F, count, std::make_index_sequence<N>> batch;
#pragma unroll
  for (int j = 0; j < count; ++j) {
    const std::int64_t i = first + j * threads;
    const std::int64_t there = i < shape.count ? i : first;
    const typename Shape<N>::Offsets offsets = Flat ? shape.run(there) : shape.offsets(there);
    batch.load(j, x, offsets.at);
  }
#pragma unroll
  for (int j = 0; j < count; ++j) {
    const std::int64_t i = first + j * threads;
    if (i < shape.count) y[i] = canonical(batch.apply(f, j));
  }
}

// An option as functions take it.
template <class F, class Option>
auto value_of(const Option& option) {
  if constexpr (std::is_same_v<Option, std::string_view>)
    return F::flag(option);
  else
    return option;
}

struct Loop {
  static constexpr Layout layout = Layout::in_place;

  template <template <class> class F, class T, std::size_t N, class... Options>
  static void run(const std::array<const Tensor*, N>& operands, const Tensor& output, const ExecContext& exec,
                  const Options&... options) {
    constexpr int n = static_cast<int>(N);
    Operands<n> x;
    for (int k = 0; k < n; ++k) x.at[k] = operands[k]->data;
    const Shape<n> shape(pointwise::Pass<n>(exec.op, output, operands));
    const auto kernel = shape.flat() ? elements<true, T, n, F<T>> : elements<false, T, n, F<T>>;
    const int a_block = threads * (shape.flat() ? each<true, F<T>> : each<false, F<T>>);
    launch(exec.op, kernel, {ceil_div(shape.count, a_block)}, threads, 0, stream_of(exec), x, output.as<T>(), shape,
           rounded_on_host<F<T>>(value_of<F<T>>(options)...));
  }
};

const AddKernel pointwise_kernels = pointwise::add_functions<Loop>(pointwise::Functions());

}  // namespace
}  // namespace repdl::cuda
