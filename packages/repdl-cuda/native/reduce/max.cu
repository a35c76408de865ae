// The maximum of each row, and its first index (max.md).
//
//   for i < rows:  (rows, n) -> (rows), (rows)
//     index[i] = first NaN of x[i, :], else first of its largest elements
//
// A warp takes a segment of a row, a second pass the segments. Comparisons are exact, so any
// order gives the same element; max_backward counts ties, which are whole numbers.
#include "base/pack.hpp"
#include "base/strides.hpp"
#include "repdl/contract/arithmetic.hpp"
#include "repdl/shape/around.hpp"

namespace repdl::cuda {
inline namespace max_cu {

constexpr int threads = 256, warps = threads / 32;
constexpr std::int64_t segment = 4096;
constexpr int items_per_thread = 16;  // elements of a lane on their way at once
constexpr unsigned full_warp_mask = 0xffffffffu;

// An element and its index in the row; index -1 is none.
template <class T>
struct Candidate {
  T value = T(0);
  std::int64_t index = -1;

  // Whether `other` comes before this one: a NaN, a larger element, or as large and earlier.
  __device__ bool yields_to(const Candidate& other) const {
    if (other.index < 0) return false;
    if (index < 0) return true;
    const bool nan = value != value, other_nan = other.value != other.value;
    if (nan != other_nan) return other_nan;
    if (!nan && value != other.value) return value < other.value;
    return other.index < index;
  }
  __device__ void meet(const Candidate& other) {
    if (yields_to(other)) *this = other;
  }
  // The same for an element that comes later in the row, where there is one already.
  __device__ void meet_later(T later, std::int64_t its_index) {
    if (value == value && !(later <= value)) value = later, index = its_index;
  }
};

template <class T>
__device__ void meet_lanes(Candidate<T>& best) {
  for (int half = 16; half > 0; half /= 2) {
    Candidate<T> other;
    other.value = __shfl_down_sync(full_warp_mask, best.value, half);
    other.index = __shfl_down_sync(full_warp_mask, best.index, half);
    best.meet(other);
  }
}

// each(i, row[i]) for the elements begin .. end of a row that are this lane's, in ascending order.
template <class T, class Each>
__device__ void in_segment(const T* row, std::int64_t begin, std::int64_t end, const Each& each) {
  with_packs<T>(whole_packs(end - begin, row + begin), [&](auto width) {
    constexpr int count = width(), packs = items_per_thread / count;
    const std::int64_t stride = warp_size * count;
#pragma unroll 1
    for (std::int64_t first = begin + threadIdx.x % warp_size * count; first < end; first += packs * stride) {
      if (first >= begin + packs * stride) REPDL_ROUND("max: elements of a lane");
      Pack<T, count> next[packs];
#pragma unroll
      for (int q = 0; q < packs; ++q)
        next[q] = load_pack<count>(row + (first + q * stride < end ? first + q * stride : first));
#pragma unroll
      for (int q = 0; q < packs; ++q)
#pragma unroll
        for (int e = 0; e < count; ++e)
          if (q == 0 || first + q * stride < end) each(first + q * stride + e, next[q].of[e]);
    }
  });
}

// indices[row, s] = where the best of segment s of the row stands.
template <class T>
__global__ void __launch_bounds__(threads)
    best_of_segments(const T* x, std::int64_t* indices, std::int64_t rows, std::int64_t n, std::int64_t segments) {
  const std::int64_t task = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_size;
  if (task >= rows * segments) return;
  const T* row = x + task / segments * n;
  const std::int64_t begin = task % segments * segment, end = n - begin < segment ? n : begin + segment;
  Candidate<T> best;
  in_segment<T>(row, begin, end, [&](std::int64_t i, T value) {
    if (best.index < 0)
      best.value = value, best.index = i;
    else
      best.meet_later(value, i);
  });
  meet_lanes(best);
  if (threadIdx.x % warp_size == 0) indices[task] = best.index;
}

// The best of a row's segments, whose indices are in found[row, :]; indices may be null.
template <class T>
__global__ void __launch_bounds__(threads)
    best_of_rows(const T* x, const std::int64_t* found, T* values, std::int64_t* indices, std::int64_t rows,
                 std::int64_t n, std::int64_t segments) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_size;
  if (row >= rows) return;
  Candidate<T> best;
  for (std::int64_t s = threadIdx.x % warp_size; s < segments; s += warp_size) {
    if (s >= warp_size) REPDL_ROUND("max: segments of a lane");
    Candidate<T> next;
    next.index = found[row * segments + s];
    next.value = x[row * n + next.index];
    best.meet(next);
  }
  meet_lanes(best);
  if (threadIdx.x % warp_size != 0) return;
  values[row] = canonical(best.value);
  if (indices) indices[row] = best.index;
}

template <class T>
__device__ bool tied(T value, T max) {
  return value == max || (value != value && max != max);
}

__global__ void __launch_bounds__(threads) no_ties(unsigned long long* ties, std::int64_t rows) {
  const std::int64_t i = thread_index();
  if (i < rows) ties[i] = 0;
}

// ties[row] += how many of segment s of the row are its largest: whole numbers, in any order.
template <class T>
__global__ void __launch_bounds__(threads) count_ties(const T* x, const T* y, unsigned long long* ties,
                                                      std::int64_t rows, std::int64_t n, std::int64_t segments) {
  const std::int64_t task = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_size;
  if (task >= rows * segments) return;
  const std::int64_t i = task / segments;
  const T max = y[i];
  const std::int64_t begin = task % segments * segment, end = n - begin < segment ? n : begin + segment;
  unsigned mine = 0;
  in_segment<T>(x + i * n, begin, end, [&](std::int64_t, T value) { mine += tied(value, max); });
  if (mine) atomicAdd(ties + i, static_cast<unsigned long long>(mine));
}

// A pack of a row.
template <class T, int count>
struct OfRow {
  Pack<T, count> x;
  T max;
  std::int64_t row;
};

template <class T>
__global__ void __launch_bounds__(threads)
    share_grad(const T* grad, const T* x, const T* y, const unsigned long long* ties, T* to, std::int64_t rows,
               std::int64_t n, FastDivmod64 by_n) {
  with_packs<T>(whole_packs(n, x, to), [&](auto width) {
    each_tile_pack<width()>(
        rows * n,
        [&](std::int64_t i) {
          const std::int64_t row = by_n.quotient(i);
          return OfRow<T, width()>{load_pack<width()>(x + i), y[row], row};
        },
        [&](std::int64_t i, const auto& loaded) {
          const std::int64_t row = loaded.row;
          Pack<T, width()> result;
#pragma unroll
          for (int q = 0; q < width(); ++q)
            result.of[q] = tied(loaded.x.of[q], loaded.max) ? canonical(grad[row] / static_cast<T>(ties[row])) : T(0);
          store_pack(to + i, result);
        });
  });
}

// The largest of each row; `indices` may be null.
template <class T>
void max_of_rows(const Tensor& x, T* values, std::int64_t* indices, std::int64_t rows, std::int64_t n,
                 const ExecContext& exec) {
  const Stream stream = stream_of(exec);
  const std::int64_t segments = ceil_div(n, segment);
  auto* found = exec.workspace<std::int64_t>(rows * segments);
  launch(exec.op, best_of_segments<T>, {ceil_div(rows * segments, warps)}, threads, 0, stream, x.as<T>(), found, rows,
         n, segments);
  launch(exec.op, best_of_rows<T>, {ceil_div(rows, warps)}, threads, 0, stream, x.as<T>(), found, values, indices, rows,
         n, segments);
}

template <class T>
void max(const Tensor& input, const Tensor& output, const ExecContext& exec) {
  max_of_rows<T>(input, output.as<T>(), nullptr, 1, input.count(), exec);
}

template <class T>
void max_dim(const Tensor& input, std::int64_t, bool, const Tensor& values, const Tensor& indices,
             const ExecContext& exec) {
  max_of_rows<T>(input, values.as<T>(), indices.as<std::int64_t>(), values.count(), rows_of(input).n, exec);
}

// (rows, n) -> (rows)
template <class T>
void amax(const Tensor& input, const Tensor& output, const ExecContext& exec) {
  max_of_rows<T>(input, output.as<T>(), nullptr, output.count(), input.size[input.dims - 1], exec);
}

// Of each row the gradient, shared by the elements that are its largest.
template <class T>
void share(const Tensor& grad, const Tensor& input, const Tensor& output, const Tensor& result, std::int64_t rows,
           std::int64_t n, const ExecContext& exec) {
  const Stream stream = stream_of(exec);
  const std::int64_t segments = ceil_div(n, segment);
  auto* ties = exec.workspace<unsigned long long>(rows);
  launch(exec.op, no_ties, {ceil_div(rows, threads)}, threads, 0, stream, ties, rows);
  launch(exec.op, count_ties<T>, {ceil_div(rows * segments, warps)}, threads, 0, stream, input.as<T>(), output.as<T>(),
         ties, rows, n, segments);
  launch(exec.op, share_grad<T>, {ceil_div(rows * n, tile_of(threads))}, threads, 0, stream, grad.as<T>(),
         input.as<T>(), output.as<T>(), ties, result.as<T>(), rows, n, FastDivmod64(n));
}

template <class T>
void amax_backward(const Tensor& grad, const Tensor& input, const Tensor& output, const Tensor& result,
                   const ExecContext& exec) {
  share<T>(grad, input, output, result, output.count(), input.size[input.dims - 1], exec);
}

template <class T>
void max_backward(const Tensor& grad, const Tensor& input, const Tensor& output, const Tensor& result,
                  const ExecContext& exec) {
  share<T>(grad, input, output, result, 1, input.count(), exec);
}

const AddKernel max_kernels = add_kernels<&max<float>, &max<double>>("max", Layout::rows);
const AddKernel max_dim_kernels = add_kernels<&max_dim<float>, &max_dim<double>>("max_dim", Layout::last);
const AddKernel max_backward_kernels =
    add_kernels<&max_backward<float>, &max_backward<double>>("max_backward", Layout::rows);
const AddKernel amax_kernels = add_kernels<&amax<float>, &amax<double>>("amax", Layout::rows);
const AddKernel amax_backward_kernels =
    add_kernels<&amax_backward<float>, &amax_backward<double>>("amax_backward", Layout::rows);

}  // namespace max_cu
}  // namespace repdl::cuda
