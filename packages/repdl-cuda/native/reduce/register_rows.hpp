// Row kernels that keep a row in registers: a warp has a block of the sums of v1, and a row is up to 32 warps.
//
//   thread l of warp b:  the elements 1024 b + 64 q + 2 l + {0, 1} of its row, q < pairs
//
// These are the terms of the lanes 2 l and 2 l + 1 of block b, so that a chain of the sum is in one thread, and a
// warp loads 256 bytes at once. Memory is read once and written once; warps meet only where a row has several blocks.
// Other rows, and the sums of other contracts, are those of row_reduce.hpp.
#pragma once

#include "base/pack.hpp"
#include "reduce/sum.hpp"
#include "reduce/warp_exp.hpp"
#include "repdl/contract/bits.hpp"

namespace repdl::cuda {

constexpr int register_lanes = 64, register_block = 1024, rows_of_warps = 4;

// Warps of a row, of which a thread keeps `values` numbers for each element.
REPDL_HD constexpr int most_register_warps(int values) { return values == 1 ? 32 : 20; }

// Whether rows of n elements may be kept in registers.
inline bool in_registers(std::int64_t n, const SumOrder& order, int values) {
  const bool one = n <= order.block && n <= register_block;
  return n > 0 && order.lanes == register_lanes && (one || order.block == register_block) &&
         n <= static_cast<std::int64_t>(most_register_warps(values)) * register_block;
}

// How the rows of a launch lie in registers: pairs of elements a thread; joined: several warps a row; full: all
// elements of all threads are of their row.
template <int pairs, bool joined_, bool full_>
struct RegisterRows {
  static constexpr int elements = 2 * pairs;
  static constexpr bool joined = joined_, full = full_;

  // For __launch_bounds__: 64 registers a thread, or 96.
  static constexpr int threads(int values) { return 32 * (joined ? most_register_warps(values) : rows_of_warps); }
  static constexpr int at_once(int values) { return joined ? 1 : values == 1 ? 8 : 5; }
};

// f(RegisterRows<...>()) for rows of n elements; `full`: full rows have a kernel of their own, without tests.
template <bool full, int pairs, bool joined, class F>
void with_rows_of(std::int64_t n, const F& f) {
  if (full && n % (pairs * register_lanes) == 0)
    f(RegisterRows<pairs, joined, full>());
  else
    f(RegisterRows<pairs, joined, false>());
}
template <bool full, class F>
void with_register_rows(std::int64_t n, const F& f) {
  if (n <= 2 * register_lanes)
    with_rows_of<full, 2, false>(n, f);
  else if (n <= 4 * register_lanes)
    with_rows_of<full, 4, false>(n, f);
  else if (n <= 8 * register_lanes)
    with_rows_of<full, 8, false>(n, f);
  else if (n <= 12 * register_lanes)
    with_rows_of<full, 12, false>(n, f);
  else if (n <= 16 * register_lanes)
    with_rows_of<full, 16, false>(n, f);
  else
    with_rows_of<full, 16, true>(n, f);
}

// Runs kernel(rows, n, arguments...): several short rows a CUDA block, each a warp along x, or one long row.
template <class... Parameters, class... Arguments>
void launch_register_rows(void (*kernel)(std::int64_t, int, Parameters...), std::int64_t rows, std::int64_t n,
                          const ExecContext& exec, Arguments... arguments) {
  const auto warps = static_cast<unsigned>(ceil_div(n, register_block));
  const int together = warps > 1 ? 1 : rows_of_warps;
  launch(exec.op, kernel, {ceil_div(rows, together)}, dim3(32 * warps, together), 0, stream_of(exec), rows,
         static_cast<int>(n), arguments...);
}

template <class T, class... More>
__device__ bool whole_pairs(std::int64_t n, const T* x, const More*... more) {
  return n % 2 == 0 && ((reinterpret_cast<std::uintptr_t>(x) | ... | reinterpret_cast<std::uintptr_t>(more)) %
                        sizeof(Pack<T, 2>)) == 0;
}

// This thread's elements of a row of n.
template <class Rows>
struct RowOfThread {
  std::int64_t row;
  int n, first;  // the row's element that is this thread's first

  __device__ explicit RowOfThread(int length)
      : row(static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y), n(length),
        first(static_cast<int>(threadIdx.x / warp_size) * register_block + 2 * (threadIdx.x % warp_size)) {}

  // How far element i of this thread is from its first.
  __device__ static constexpr int distance(int i) { return i / 2 * register_lanes + i % 2; }
  __device__ bool has(int i) const { return Rows::full || distance(i) < n - first; }

  template <class T>
  __device__ T* of(T* rows) const {
    return rows + row * n + first;
  }

  // to[i - begin] = x[distance(i)] for the elements begin .. begin + count that the row has; `whole`: by pairs.
  template <int count, class T>
  __device__ void load(const T* x, bool whole, int begin, T (&to)[count]) const {
    if (whole) {
#pragma unroll
      for (int i = 0; i < count; i += 2) {
        if (!has(begin + i)) continue;
        const Pack<T, 2> pair = load_pack<2>(x + distance(begin + i));
        to[i] = pair.of[0], to[i + 1] = pair.of[1];
      }
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i)
        if (has(begin + i)) to[i] = x[distance(begin + i)];
    }
  }
  // All elements of a row; `missing` past its end.
  template <class T>
  __device__ void load_all(const T* x, bool whole, T missing, T (&to)[Rows::elements]) const {
#pragma unroll
    for (int i = 0; i < Rows::elements; ++i) to[i] = missing;
    load<Rows::elements>(x, whole, 0, to);
  }

  template <int count, class T>
  __device__ void store(T* y, bool whole, int begin, const T (&from)[count]) const {
    if (whole) {
#pragma unroll
      for (int i = 0; i < count; i += 2)
        if (has(begin + i))
          store_pack(y + distance(begin + i), Pack<T, 2>{{canonical(from[i]), canonical(from[i + 1])}});
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i)
        if (has(begin + i)) y[distance(begin + i)] = canonical(from[i]);
    }
  }

  // f(begin, Width<batch>()) for batches of elements: so many loads are on their way before the stores.
  template <int batch, class F>
  __device__ static void each_batch(const F& f) {
    constexpr int width = batch < Rows::elements ? batch : Rows::elements;
    static_assert(Rows::elements % width == 0);
#pragma unroll
    for (int begin = 0; begin < Rows::elements; begin += width) f(begin, Width<width>());
  }
};

template <class T>
__device__ T shuffle_xor(T value, int by) {
  return __shfl_xor_sync(full_warp_mask, value, by);
}
template <class T>
__device__ TwoSums<T> shuffle_xor(TwoSums<T> value, int by) {
  return {shuffle_xor(value.first, by), shuffle_xor(value.second, by)};
}
template <class T>
__device__ T of_first_lane(T value) {
  return __shfl_sync(full_warp_mask, value, 0);
}
template <class T>
__device__ TwoSums<T> of_first_lane(TwoSums<T> value) {
  return {of_first_lane(value.first), of_first_lane(value.second)};
}

// What the warps of a row have, for its use number `use` in a kernel: memory of its own, so that they meet once.
template <class T, int use>
struct OfWarps {
  T of[32];
};
template <int use, class T>
__device__ T other_warps(T value) {
  auto& all = shared<OfWarps<T, use>>().of;
  const unsigned lane = threadIdx.x % warp_size;
  if (lane == 0) all[threadIdx.x / warp_size] = value;
  __syncthreads();
  return all[lane < blockDim.x / warp_size ? lane : 0];
}

// The sum over the elements of a row: a thread adds the terms of its elements in their order. A term past the end of
// the row has to be +0: a chain from +0 is never -0, and any other number keeps its bits.
template <class Rows, class T>
class RegisterSum {
 public:
  __device__ void add(int i, const T& term) { lane_[i % 2] += term; }

  // For all threads of the row. `use`: how many sums of T the kernel has had before.
  template <int use>
  __device__ T result() const {
    T lane[2] = {lane_[0], lane_[1]};
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {  // of the threads; the lanes have twice the distance
      lane[0] += shuffle_xor(lane[0], half);
      lane[1] += shuffle_xor(lane[1], half);
    }
    const T sum = lane[0] + lane[1];
    if constexpr (Rows::joined)
      return joined(other_warps<use>(sum));
    else
      return sum;
  }

 private:
  // The tree over the blocks, of which each lane has one.
  __device__ static T joined(T sum) {
    const int warps = blockDim.x / warp_size, me = threadIdx.x % warp_size;
    for (int step = 1; step < warps; step *= 2) {
      const T right = shuffle_down(sum, step);
      if (me + step < warps) sum += right;
    }
    return of_first_lane(sum);
  }

  T lane_[2] = {T(0), T(0)};
};

// term(0) + ... of all elements of a row
template <class Rows, int use, class T, class Term>
__device__ T register_sum(const Term& term) {
  RegisterSum<Rows, T> sum;
#pragma unroll
  for (int i = 0; i < Rows::elements; ++i) sum.add(i, term(i));
  return sum.template result<use>();
}

__device__ inline float larger(float x, float best) { return x > best ? x : best; }

// The largest element of a row that is not NaN, -inf if there is none, a zero as +0, for all threads of the row.
template <class Rows>
__device__ float register_max(const float (&x)[Rows::elements]) {
  float best = x[0] == x[0] ? x[0] : -exact::infinity();  // of x[0] > -inf ptxas makes an instruction that drops a NaN
#pragma unroll
  for (int i = 1; i < Rows::elements; ++i) best = larger(x[i], best);
#pragma unroll
  for (int half = 16; half > 0; half /= 2) best = larger(shuffle_xor(best, half), best);
  if constexpr (Rows::joined) {
    best = other_warps<-1>(best);
#pragma unroll
    for (int half = 16; half > 0; half /= 2) best = larger(shuffle_xor(best, half), best);
  }
  return best + 0.0f;
}

// The sum of exp(x[i] - m), whose terms are in e if `keep`. Past the end of a row x is -inf: exp(-inf) is +0, and
// where -inf - m is NaN, so is the sum.
template <bool keep, class Rows>
__device__ float register_exp_sum(float (&x)[Rows::elements], float m) {
  RegisterSum<Rows, float> sum;
  RowOfThread<Rows>::template each_batch<8>([&](int begin, auto width) {
    float e[width()];
#pragma unroll
    for (int i = 0; i < width(); ++i) e[i] = x[begin + i] - m;
    warp_exps(e);
#pragma unroll
    for (int i = 0; i < width(); ++i) {
      sum.add(begin + i, e[i]);
      if constexpr (keep) x[begin + i] = e[i];
    }
  });
  return sum.template result<0>();
}

}  // namespace repdl::cuda
