// The loop around a function of elements: y[i] = f(a[i], b[i], ...), operands broadcast to the output.
//
//   packs      operands side by side, or one element for all: a thread has 16 bytes of the output
//   elements   operands of any strides
#pragma once

#include "base/pack.hpp"
#include "base/strides.hpp"
#include "repdl/pointwise/function.hpp"

namespace repdl::cuda {

constexpr int element_threads = 256;

template <int N>
struct Operands {
  const void* at[N];
  bool single[N];  // one element for all
};

// Operand k of some elements of a thread.
template <std::size_t k, class Operand, int count>
struct Loaded {
  Pack<Operand, count> pack;
};

template <class F, int count, class Indices>
struct Batch;
template <class F, int count, std::size_t... I>
struct Batch<F, count, std::index_sequence<I...>>
    : Loaded<I, typename pointwise::Parameters<F>::template at<I>, count>... {
  static constexpr int operands = static_cast<int>(sizeof...(I));
  template <std::size_t k>
  using Operand = typename pointwise::Parameters<F>::template at<k>;
  template <std::size_t k>
  using At = Loaded<k, Operand<k>, count>;

  // Whether each operand of a flat shape is of whole packs, or one element.
  static bool whole(const Operands<operands>& x, const Shape<operands>& shape) {
    return (((operands > 1 && shape.inner(I) == 0) ||
             (shape.inner(I) == 1 && packed<Operand<I>, count>(static_cast<const Operand<I>*>(x.at[I])))) &&
            ...);
  }

  // Element j lies at offset[k] in operand k.
  __device__ void load(int j, const Operands<operands>& x, const std::int64_t (&offset)[operands]) {
    ((At<I>::pack.of[j] = static_cast<const Operand<I>*>(x.at[I])[offset[I]]), ...);
  }
  // Elements `first` and those that follow, `left` of them.
  __device__ void load_side_by_side(const Operands<operands>& x, std::int64_t first, std::int64_t left) {
    (load_operand<I>(x, first, left), ...);
  }
  __device__ auto apply(const F& f, int j) const { return f(At<I>::pack.of[j]...); }

 private:
  // Slots past the end have the first element again.
  template <std::size_t k>
  __device__ void load_operand(const Operands<operands>& x, std::int64_t first, std::int64_t left) {
    auto& pack = At<k>::pack;
    const auto* from = static_cast<const Operand<k>*>(x.at[k]);
    const bool single = operands > 1 && x.single[k];
    if (!single && left >= count) {
      pack = load_pack<count>(from + first);
    } else {
#pragma unroll
      for (int j = 0; j < count; ++j) pack.of[j] = from[single ? 0 : first + (j < left ? j : 0)];
    }
  }
};
template <class F, int count>
using BatchOf = Batch<F, count, std::make_index_sequence<pointwise::Parameters<F>::count>>;

// f comes with its options rounded: no thread converts a double.
template <class F, int count>
__device__ auto result_of(const F& f, const BatchOf<F, count>& batch, int j) {
  if constexpr (std::is_base_of_v<pointwise::Exact, F>)
    return batch.apply(f, j);
  else
    return canonical(batch.apply(f, j));
}

// All loads come before the stores, which may be to the same memory.
template <class T, int N, class F>
__global__ void __launch_bounds__(element_threads) packs(Operands<N> x, T* y, std::int64_t n, F f) {
  constexpr int count = whole_pack<T>;
  const std::int64_t first = thread_index() * count;
  if (first >= n) return;
  BatchOf<F, count> batch;
  batch.load_side_by_side(x, first, n - first);
  T result[count];
#pragma unroll
  for (int j = 0; j < count; ++j) result[j] = result_of<F, count>(f, batch, j);
  if (n - first >= count) {
    Pack<T, count> pack;  // of this branch: one of both is kept in local memory
#pragma unroll
    for (int j = 0; j < count; ++j) pack.of[j] = result[j];
    store_pack(y + first, pack);
  } else {
#pragma unroll
    for (int j = 0; j < count; ++j)
      if (first + j < n) y[first + j] = result[j];
  }
}

// Elements a thread: several loads on their way keep the memory busy, unless f is long.
template <class F>
constexpr int each = F::costly ? 1 : 4;

// The same; past the end a thread's own first element is loaded again, which no other thread stores.
template <class T, int N, class F>
__global__ void __launch_bounds__(element_threads) elements(Operands<N> x, T* y, Shape<N> shape, F f) {
  constexpr int count = each<F>;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * element_threads * count + threadIdx.x;
  if (first >= shape.count) return;
  BatchOf<F, count> batch;
#pragma unroll
  for (int j = 0; j < count; ++j) {
    const std::int64_t i = first + j * element_threads;
    batch.load(j, x, shape.offsets(i < shape.count ? i : first).at);
  }
#pragma unroll
  for (int j = 0; j < count; ++j) {
    const std::int64_t i = first + j * element_threads;
    if (i < shape.count) y[i] = result_of<F, count>(f, batch, j);
  }
}

// y = f(operands), of any strides; y has no gaps.
template <class T, std::size_t N, class F>
void run_elements(const ExecContext& exec, const std::array<const Tensor*, N>& operands, const Tensor& output,
                  const F& f) {
  constexpr int n = static_cast<int>(N), count = whole_pack<T>;
  const Shape<n> shape(pointwise::Pass<n>(exec.op, output, operands));
  Operands<n> x;
  for (int k = 0; k < n; ++k) x.at[k] = operands[k]->data, x.single[k] = shape.inner(k) == 0;
  T* y = output.as<T>();
  const Stream stream = stream_of(exec);
  if (shape.flat() && packed(y) && BatchOf<F, count>::whole(x, shape))
    launch(exec.op, packs<T, n, F>, {ceil_div(shape.count, element_threads * count)}, element_threads, 0, stream, x, y,
           shape.count, f);
  else
    launch(exec.op, elements<T, n, F>, {ceil_div(shape.count, element_threads * each<F>)}, element_threads, 0, stream,
           x, y, shape, f);
}

}  // namespace repdl::cuda
