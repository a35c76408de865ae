// The maximum of each window and its index, and its gradient (max_pool2d.md).
//
//   for p < planes, y < OH, z < OW:  (planes, H, W) -> (planes, OH, OW)
//     index[p, y, z] = first of the largest, or last NaN, of the window of x[p] at (y, z)
//   for p < planes, o < OH * OW:  (planes, OH, OW) -> (planes, H, W)
//     out[p, index[p, o]] += grad[p, o], o ascending from +0
#include "base/expect.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/shape/around.hpp"
#include "repdl/shape/window.hpp"

namespace repdl::cuda {
inline namespace max_pool2d_cu {

constexpr int threads = 256;

template <class T>
__global__ void __launch_bounds__(threads)
    pool(const T* x, T* y, std::int64_t* index, WindowSide h, WindowSide w, std::int64_t count) {
  const std::int64_t o = thread_index();
  if (o >= count) return;
  const std::int64_t row = o / w.out % h.out, column = o % w.out;
  const T* plane = x + o / w.out / h.out * h.size * w.size;
  T best = T(0);
  std::int64_t where = -1;
  for (std::int64_t i = 0; i < h.kernel; ++i) {
    const std::int64_t at_row = h.at(row, i);
    if (at_row < 0 || at_row >= h.size) continue;
    for (std::int64_t j = 0; j < w.kernel; ++j) {
      const std::int64_t at_column = w.at(column, j);
      if (at_column < 0 || at_column >= w.size) continue;
      const std::int64_t here = at_row * w.size + at_column;
      const T value = plane[here];
      // The first element counts where all are -inf.
      if (where < 0 || value > best || value != value) {
        best = value;
        where = here;
      }
    }
  }
  y[o] = canonical(best);
  index[o] = where;
}

template <class T>
__global__ void __launch_bounds__(threads) fill_zero(T* x, int* claim, std::int64_t count) {
  const std::int64_t i = thread_index();
  if (i >= count) return;
  x[i] = T(0);
  claim[i] = threads;
}

// A CUDA block takes a plane, and its outputs in ascending order, as many at once as it has
// threads. Of those that go to one element the first one adds, then the next.
template <class T>
__global__ void __launch_bounds__(threads) unpool(const T* grad, const std::int64_t* index, T* result, int* claims,
                                                  std::int64_t outputs, std::int64_t inputs) {
  const std::int64_t plane = blockIdx.x;
  T* to = result + plane * inputs;
  int* claim = claims + plane * inputs;
  const int me = threadIdx.x;
  for (std::int64_t first = 0; first < outputs; first += threads) {
    if (first > 0) REPDL_ROUND("max_pool2d: outputs of a block");
    const std::int64_t o = plane * outputs + first + me;
    bool waits = first + me < outputs;
    const std::int64_t target = waits ? index[o] : 0;
    expect(!waits || (target >= 0 && target < inputs), "an index is outside of its plane");
    while (__syncthreads_or(waits)) {
      if (waits) atomicMin(&claim[target], me);
      __syncthreads();
      const bool mine = waits && claim[target] == me;
      if (mine) to[target] = to[target] + grad[o];
      __syncthreads();
      if (mine) {
        claim[target] = threads;
        waits = false;
      }
    }
  }
  for (std::int64_t i = me; i < inputs; i += threads) {
    if (i >= threads) REPDL_ROUND("max_pool2d: inputs of a thread");
    to[i] = canonical(to[i]);
  }
}

template <class T>
void max_pool2d(const Tensor& input, Ints kernel_size, Ints stride, Ints padding, Ints dilation, bool,
                const Tensor& output, const Tensor& indices, const ExecContext& exec) {
  const WindowSide h(0, input, output, kernel_size, stride, padding, dilation);
  const WindowSide w(1, input, output, kernel_size, stride, padding, dilation);
  launch(exec.op, pool<T>, {ceil_div(output.count(), threads)}, threads, 0, stream_of(exec), input.as<T>(),
         output.as<T>(), indices.as<std::int64_t>(), h, w, output.count());
}

template <class T>
void max_pool2d_backward(const Tensor& grad, const Tensor& indices, Ints, const Tensor& output,
                         const ExecContext& exec) {
  const Stream stream = stream_of(exec);
  const std::int64_t count = output.count();
  int* claims = exec.workspace<int>(count);
  launch(exec.op, fill_zero<T>, {ceil_div(count, threads)}, threads, 0, stream, output.as<T>(), claims, count);
  launch(exec.op, unpool<T>, {extent(output, 0, 2)}, threads, 0, stream, grad.as<T>(), indices.as<std::int64_t>(),
         output.as<T>(), claims, extent(grad, 2, 4), extent(output, 2, 4));
}

const AddKernel max_pool2d_kernels = add_kernels<&max_pool2d<float>, &max_pool2d<double>>("max_pool2d", Layout::rows);
const AddKernel max_pool2d_backward_kernels =
    add_kernels<&max_pool2d_backward<float>, &max_pool2d_backward<double>>("max_pool2d_backward", Layout::rows);

}  // namespace max_pool2d_cu
}  // namespace repdl::cuda
