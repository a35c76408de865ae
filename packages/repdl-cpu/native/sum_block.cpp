// The lanes of one block of a sum (sum.hpp): element i is added to lane i mod lanes.
#include "simd.hpp"
#include "sum.hpp"

namespace repdl::cpu {
namespace {

constexpr int vectors = max_lanes / Vec::width;
constexpr int group = vectors < 8 ? vectors : 8;  // narrow ISAs: several passes over x

// 64 lanes, a vector register for each Vec::width of them.
void add_64(float* lane, const float* x, std::int64_t n) {
  const std::int64_t whole = n / max_lanes * max_lanes;
  for (int g = 0; whole > 0 && g < vectors; g += group) {
    Vec acc[group];
    for (int v = 0; v < group; ++v) acc[v] = Vec::load(lane + (g + v) * Vec::width);
    const float* p = x + g * Vec::width;
    for (std::int64_t i = 0; i < whole; i += max_lanes)
      for (int v = 0; v < group; ++v) acc[v] = acc[v] + Vec::load(p + i + v * Vec::width);
    for (int v = 0; v < group; ++v) acc[v].store(lane + (g + v) * Vec::width);
  }
  const int rest = static_cast<int>(n - whole);
  for (int at = 0; at < rest; at += Vec::width) {
    const float* p = x + whole + at;
    const Vec sum = Vec::load(lane + at) + (rest - at < Vec::width ? Vec::load(p, rest - at) : Vec::load(p));
    sum.store(lane + at);
  }
}

}  // namespace

void BlockSum::add(const float* x, std::int64_t n) {
  if (lanes_ == max_lanes) return add_64(lane_, x, n);
  if (lanes_ == 1) {
    float chain = lane_[0];
    for (std::int64_t i = 0; i < n; ++i) chain = chain + x[i];
    lane_[0] = chain;
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) lane_[i & (lanes_ - 1)] += x[i];
}

float BlockSum::result() const {
  alignas(64) float lane[max_lanes];
  std::memcpy(lane, lane_, sizeof lane);
  for (std::int64_t half = lanes_ / 2; half >= 1; half /= 2)
    for (std::int64_t j = 0; j < half; ++j) lane[j] = lane[j] + lane[j + half];
  return lane[0];
}

}  // namespace repdl::cpu
