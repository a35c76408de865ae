// The largest element of each window and its index, and the way back (max_pool2d.md).
//
//   for p < planes, y < OH, z < OW:  (planes, H, W) -> (planes, OH, OW)
//     index[p, y, z] = first of the largest, or last NaN, of the window of x[p] at (y, z)
//   for p < planes, o < OH * OW:  (planes, OH, OW) -> (planes, H, W)
//     out[p, index[p, o]] += grad[p, o], o ascending from +0
#include "base/launch.hpp"
#include "base/ops.hpp"
#include "repdl/contract/arithmetic.hpp"

namespace repdl::cuda {
namespace {

constexpr int threads = 256;

struct Side {
  std::int64_t size, out, kernel, stride, padding, dilation;

  __device__ std::int64_t at(std::int64_t o, std::int64_t k) const { return o * stride - padding + k * dilation; }
};

template <class T>
__global__ void __launch_bounds__(threads)
    pool(const T* x, T* y, std::int64_t* index, Side h, Side w, std::int64_t count) {
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
    const std::int64_t o = plane * outputs + first + me;
    bool waits = first + me < outputs;
    const std::int64_t target = waits ? index[o] : 0;
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
  for (std::int64_t i = me; i < inputs; i += threads) to[i] = canonical(to[i]);
}

Side side_of(const Sizes& s) { return {s.at(0), s.at(1), s.at(2), s.at(3), s.at(4), s.at(5)}; }

}  // namespace

template <class T>
void max_pool2d(Address x, Address y, Address index, std::int64_t planes, const Sizes& rows, const Sizes& columns,
                const Stream& stream) {
  const Side h = side_of(rows), w = side_of(columns);
  const std::int64_t count = planes * h.out * w.out;
  launch("max_pool2d", pool<T>, {ceil_div(count, threads)}, threads, 0, stream, in<T>(x), out<T>(y),
         out<std::int64_t>(index), h, w, count);
}

template <class T>
void max_pool2d_backward(Address grad, Address index, Address result, Address claims, std::int64_t planes,
                         std::int64_t outputs, std::int64_t inputs, const Stream& stream) {
  launch("max_pool2d_backward", fill_zero<T>, {ceil_div(planes * inputs, threads)}, threads, 0, stream, out<T>(result),
         out<int>(claims), planes * inputs);
  launch("max_pool2d_backward", unpool<T>, {planes}, threads, 0, stream, in<T>(grad), in<std::int64_t>(index),
         out<T>(result), out<int>(claims), outputs, inputs);
}

template void max_pool2d<float>(Address, Address, Address, std::int64_t, const Sizes&, const Sizes&, const Stream&);
template void max_pool2d<double>(Address, Address, Address, std::int64_t, const Sizes&, const Sizes&, const Stream&);
template void max_pool2d_backward<float>(Address, Address, Address, Address, std::int64_t, std::int64_t, std::int64_t,
                                         const Stream&);
template void max_pool2d_backward<double>(Address, Address, Address, Address, std::int64_t, std::int64_t, std::int64_t,
                                          const Stream&);

}  // namespace repdl::cuda
