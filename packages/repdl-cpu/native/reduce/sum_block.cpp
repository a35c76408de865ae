// The lanes of one block of a sum, or of several in lockstep (sum.hpp): element i is added to
// lane i mod lanes. And rows added to the lanes of many columns.
#include "simd/simd.hpp"
#include "simd/simd_double.hpp"
#include "reduce/sum.hpp"
#include "reduce/row_sum.hpp"
#include "simd/row_loop.hpp"

namespace repdl::cpu {
namespace {

// 64 lanes, a vector register for each V::width of them.
template <class T>
void add_64(T* lane, const T* x, std::int64_t n) {
  using V = VecOf<T>;
  constexpr int vectors = max_lanes / V::width;
  constexpr int group = vectors < 8 ? vectors : 8;  // narrow ISAs: several passes over x
  const std::int64_t whole = n / max_lanes * max_lanes;
  for (int g = 0; whole > 0 && g < vectors; g += group) {
    V acc[group];
    for (int v = 0; v < group; ++v) acc[v] = V::load(lane + (g + v) * V::width);
    const T* p = x + g * V::width;
    for (std::int64_t i = 0; i < whole; i += max_lanes)
      for (int v = 0; v < group; ++v) acc[v] = acc[v] + V::load_streamed(p + i + v * V::width);
    for (int v = 0; v < group; ++v) acc[v].store(lane + (g + v) * V::width);
  }
  const int rest = static_cast<int>(n - whole);
  for (int at = 0; at < rest; at += V::width) {
    const T* p = x + whole + at;
    const V sum = V::load(lane + at) + (rest - at < V::width ? V::load(p, rest - at) : V::load(p));
    sum.store(lane + at);
  }
}

}  // namespace

template <class T>
void BlockSumOf<T>::add(const T* x, std::int64_t n) {
  if (lanes_ == max_lanes) REPDL_ROUTE("sum: 64 lanes", sizeof(T));
  if (lanes_ == max_lanes) return add_64(lane_, x, n);
  if (lanes_ == 1) {
    REPDL_ROUTE("sum: one lane", sizeof(T));
    T chain = lane_[0];
    for (std::int64_t i = 0; i < n; ++i) chain = chain + x[i];
    lane_[0] = chain;
    return;
  }
  REPDL_ROUTE("sum: other lanes", sizeof(T));
  for (std::int64_t i = 0; i < n; ++i) lane_[i & (lanes_ - 1)] += x[i];
}

template <class T>
T BlockSumOf<T>::result() const {
  alignas(64) T lane[max_lanes];
  std::memcpy(lane, lane_, sizeof lane);
  fold_lanes(lanes_, [&](std::int64_t half) {
    for (std::int64_t j = 0; j < half; ++j) lane[j] = lane[j] + lane[j + half];
  });
  return lane[0];
}

template <class T>
void sum_blocks(const T* x, std::int64_t distance, std::int64_t n, const Contract& contract, T* out,
                std::int64_t out_distance) {
  if constexpr (std::is_same_v<T, float>) {
    if (contract.sum_lanes == max_lanes) {
      std::array<float, sum_streams> sums;
      sum_64_lanes<sum_streams>(
          0, n,
          [=](std::int64_t i, auto part) {
            std::array<Vec, sum_streams> next;
            for (int s = 0; s < sum_streams; ++s) next[s] = part.load_streamed(x + s * distance + i);
            return next;
          },
          sums);
      for (int s = 0; s < sum_streams; ++s) out[s * out_distance] = sums[s];
      return;
    }
  }
  for (int s = 0; s < sum_streams; ++s) out[s * out_distance] = sum_block(x + s * distance, n, contract);
}

template <class T>
void add_rows(T* to, const T* const* rows, std::int64_t count, std::int64_t width, bool from_zero) {
  using V = VecOf<T>;
  constexpr int group = V::registers / 4;
  std::int64_t c = 0;
  for (; c + group * V::width <= width; c += group * V::width) {
    V acc[group];
    for (int v = 0; v < group; ++v) acc[v] = from_zero ? V::zero() : V::load(to + c + v * V::width);
    for (std::int64_t r = 0; r < count; ++r)
      for (int v = 0; v < group; ++v) acc[v] = acc[v] + V::load_streamed(rows[r] + c + v * V::width);
    for (int v = 0; v < group; ++v) acc[v].store(to + c + v * V::width);
  }
  for (; c < width; c += V::width) {
    const int n = static_cast<int>(std::min<std::int64_t>(V::width, width - c));
    V acc = from_zero ? V::zero() : V::load(to + c, n);
    for (std::int64_t r = 0; r < count; ++r) acc = acc + V::load(rows[r] + c, n);
    acc.store(to + c, n);
  }
}

template class BlockSumOf<float>;
template class BlockSumOf<double>;
template void sum_blocks(const float*, std::int64_t, std::int64_t, const Contract&, float*, std::int64_t);
template void sum_blocks(const double*, std::int64_t, std::int64_t, const Contract&, double*, std::int64_t);
template void add_rows(float*, const float* const*, std::int64_t, std::int64_t, bool);
template void add_rows(double*, const double* const*, std::int64_t, std::int64_t, bool);

}  // namespace repdl::cpu
