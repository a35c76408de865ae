// The lanes of one block of a sum (sum.hpp): element i is added to lane i mod lanes.
#include "simd.hpp"
#include "simd_double.hpp"
#include "sum.hpp"

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
      for (int v = 0; v < group; ++v) acc[v] = acc[v] + V::load(p + i + v * V::width);
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
  if (lanes_ == max_lanes) return add_64(lane_, x, n);
  if (lanes_ == 1) {
    T chain = lane_[0];
    for (std::int64_t i = 0; i < n; ++i) chain = chain + x[i];
    lane_[0] = chain;
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) lane_[i & (lanes_ - 1)] += x[i];
}

template <class T>
T BlockSumOf<T>::result() const {
  alignas(64) T lane[max_lanes];
  std::memcpy(lane, lane_, sizeof lane);
  for (std::int64_t half = lanes_ / 2; half >= 1; half /= 2)
    for (std::int64_t j = 0; j < half; ++j) lane[j] = lane[j] + lane[j + half];
  return lane[0];
}

template class BlockSumOf<float>;
template class BlockSumOf<double>;

}  // namespace repdl::cpu
