// Normal numbers, a vector of pairs at a time (distributions.md).
//
//   for i < n:  (n) -> (n), m = offset + i, pairs of an even m and m + 1
//     r = sqrt(-2 log(v(word(m)))), t = t(word(m + 1))
//     out[i], out[i + 1] = fma(r * cos(t), std, mean), fma(r * sin(t), std, mean)
#include <cmath>

#include "exact/log_vec.hpp"
#include "exact/sin_vec.hpp"
#include "random/words.hpp"
#include "repdl/random/draws.hpp"
#include "simd/row_loop.hpp"

namespace repdl::cpu {
namespace {

using random::Position;

constexpr std::int64_t pairs_at_once = words_at_once / 2;

// y = log(v), which is below 1 but for few.
void logarithms(const float* v, float* y, std::int64_t n) {
  row_loop(n, [=](std::int64_t i, auto part) { part.store(y + i, log(part.load(v + i))); });
}

// z[0], z[2], ... = r cos(t), z[1], z[3], ... = r sin(t); what the two share, the compiler computes once.
void turned(const float* r, const float* t, float* cosines, float* sines, std::int64_t n) {
  row_loop(n, [=](std::int64_t i, auto part) {
    const Vec radius = part.load(r + i), angle = part.load(t + i);
    part.store(cosines + i, radius * cos(angle));
    part.store(sines + i, radius * sin(angle));
  });
}

void normal(const Tensor&, const Tensor& position, double mean, double std, const Tensor& output,
            const ExecContext& exec) {
  const Position at(position);
  parallel_for(output.count(), 1 << 13, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    const random::Normal of(mean, std);
    alignas(64) std::uint32_t words[words_at_once];
    alignas(64) float v[pairs_at_once], t[pairs_at_once], sines[pairs_at_once], z[words_at_once];
    in_batches(at, begin, end, [&](const Batch& batch) {
      fill_words(at, batch, random::pairs_plane, words);
      const std::int64_t pairs = 2 * batch.blocks;
      for (std::int64_t j = 0; j < pairs; ++j) {
        v[j] = random::left_open(words[2 * j]);
        t[j] = random::angle(words[2 * j + 1]);
      }
      logarithms(v, v, pairs);
      for (std::int64_t j = 0; j < pairs; ++j) v[j] = std::sqrt(-2.0f * v[j]);
      turned(v, t, v, sines, pairs);
      const random::Normal f = of;
      for (std::int64_t j = 0; j < pairs; ++j) {
        z[2 * j] = f.of(v[j]);
        z[2 * j + 1] = f.of(sines[j]);
      }
      std::memcpy(output.as<float>() + batch.element, z + batch.skip,
                  static_cast<std::size_t>(batch.count) * sizeof(float));
    });
  });
}

void wide_normal(const Tensor&, const Tensor& position, double mean, double std, const Tensor& output,
                 const ExecContext& exec) {
  const Position at(position);
  parallel_for(output.count(), 1 << 12, exec.threads, [&](std::int64_t begin, std::int64_t end) {
    const random::WideNormal of(mean, std);
    alignas(64) std::uint32_t high[words_at_once], low[words_at_once];
    alignas(64) double z[words_at_once];
    in_batches(at, begin, end, [&](const Batch& batch) {
      fill_words(at, batch, random::pairs_plane, high);
      fill_words(at, batch, random::pairs_plane + 1, low);
      const random::WideNormal f = of;
      for (std::int64_t j = 0; j < 4 * batch.blocks; j += 2) {
        const double r = random::radius(random::wide(high[j], low[j]));
        const random::Direction d = random::direction(random::wide(high[j + 1], low[j + 1]));
        z[j] = f.of(r * d.cosine);
        z[j + 1] = f.of(r * d.sine);
      }
      std::memcpy(output.as<double>() + batch.element, z + batch.skip,
                  static_cast<std::size_t>(batch.count) * sizeof(double));
    });
  });
}

const AddKernel normal_kernels = add_kernels<&normal, &wide_normal>("normal");

}  // namespace
}  // namespace repdl::cpu
