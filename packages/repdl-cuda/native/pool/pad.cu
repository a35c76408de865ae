// Padding that repeats elements, and its gradient (pad.md).
//
//   for i < outer, o < padded, j < inner:  (outer, n, inner) -> (outer, padded, inner)
//     y[i, o, j] = x[i, s(o - left), j]
//   for i < outer, e < n, j < inner:  (outer, padded, inner) -> (outer, n, inner)
//     out[i, e, j] = sum of grad[i, o, j] over the o with s(o - left) = e, o ascending from +0
#include "base/launch.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/shape/around.hpp"
#include "repdl/shape/padding.hpp"

namespace repdl::cuda {
inline namespace pad_cu {

constexpr int threads = 256;

struct Side : PaddedSide {
  using PaddedSide::PaddedSide;

  // f(i) for the positions that copy element e, ascending.
  template <class F>
  __device__ void for_each_copy(std::int64_t e, const F& f) const {
    if (mode == Mode::replicate) {
      if (e == 0)
        for (std::int64_t i = -left; i < 0; ++i) f(i);
      f(e);
      if (e == n - 1)
        for (std::int64_t i = n; i < n + right; ++i) f(i);
      return;
    }
    const std::int64_t before = mode == Mode::circular ? e - n : -e;
    const std::int64_t after = mode == Mode::circular ? e + n : 2 * (n - 1) - e;
    if (before < 0 && before >= -left) f(before);
    f(e);
    if (after >= n && after < n + right) f(after);
  }
};

// Element `index` of (outer, size, inner).
struct Place {
  std::int64_t outer, at, inner;

  __device__ Place(std::int64_t index, std::int64_t size, std::int64_t inners)
      : outer(index / inners / size), at(index / inners % size), inner(index % inners) {}
};

template <class T>
__global__ void __launch_bounds__(threads)
    copy_elements(const T* x, T* y, Side side, std::int64_t inner, std::int64_t count) {
  const std::int64_t index = thread_index();
  if (index >= count) return;
  const Place to(index, side.padded(), inner);
  y[index] = canonical(x[(to.outer * side.n + side.source(to.at - side.left)) * inner + to.inner]);
}

template <class T>
__global__ void __launch_bounds__(threads)
    sum_copies(const T* grad, T* y, Side side, std::int64_t inner, std::int64_t count) {
  const std::int64_t index = thread_index();
  if (index >= count) return;
  const Place to(index, side.n, inner);
  T sum = T(0);
  side.for_each_copy(
      to.at, [&](std::int64_t i) { sum += grad[(to.outer * side.padded() + i + side.left) * inner + to.inner]; });
  y[index] = canonical(sum);
}

template <class T>
void pad(const Tensor& input, std::int64_t dim, std::int64_t left, std::int64_t right, std::string_view mode,
         const Tensor& output, const ExecContext& exec) {
  const Around of = around(input, dim);
  launch(exec.op, copy_elements<T>, {ceil_div(output.count(), threads)}, threads, 0, stream_of(exec), input.as<T>(),
         output.as<T>(), Side(mode, of.n, left, right), of.inner, output.count());
}

template <class T>
void pad_backward(const Tensor& grad, std::int64_t dim, std::int64_t left, std::int64_t right, std::string_view mode,
                  const Tensor& output, const ExecContext& exec) {
  const Around of = around(output, dim);
  launch(exec.op, sum_copies<T>, {ceil_div(output.count(), threads)}, threads, 0, stream_of(exec), grad.as<T>(),
         output.as<T>(), Side(mode, of.n, left, right), of.inner, output.count());
}

const AddKernel pad_kernels = add_kernels<&pad<float>, &pad<double>>("pad", Layout::rows);
const AddKernel pad_backward_kernels =
    add_kernels<&pad_backward<float>, &pad_backward<double>>("pad_backward", Layout::rows);

}  // namespace pad_cu
}  // namespace repdl::cuda
