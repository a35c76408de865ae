// The weight gradient where an image gives few columns in short runs, such as one channel under a
// 5 x 5 kernel: nothing is packed, and a vector is half of one run and half of the next.
//
//   for o < rows, r < count:  (N, O, P), frames -> (O, count, length)
//     dW[o, r, :] = dot over k = (n, y, x), `terms` of them from `start` on, of G[o, k] and X[k, r, :]
#pragma once

#include "chunk_tree.hpp"
#include "pixel_frames.hpp"

namespace repdl::cpu {

constexpr int most_short_runs = 8;
constexpr int short_rows = 6;  // rows o that share what is read

// Whether two runs fit a vector, and the chains of all of them the registers.
inline bool fits_short_runs(std::int64_t count, std::int64_t length) {
  return 2 * length <= Vec::width && count <= most_short_runs && (short_rows + 1) * ((count + 1) / 2) < Vec::registers;
}

// Cycles a term, about.
inline std::int64_t short_runs_cost(std::int64_t count, std::int64_t rows) {
  return (count + 1) / 2 * ((rows + short_rows - 1) / short_rows * short_rows);
}

// V vectors of runs for `rows` rows; grad from the first one on.
template <int V>
void short_runs_tile(const float* grad, const RunOperand& runs, std::int64_t count, const Frames& frames,
                     const Geometry& g, std::int64_t start, std::int64_t terms, std::int64_t chunk, std::int64_t rows,
                     float* out) {
  constexpr int R = short_rows, half = Vec::width / 2;
  const std::int64_t positions = g.oh * g.ow, step = frames.step_w * frames.pitch;
  const float* place[2 * V];  // the last one twice, where there is no other
  const float* row[R];
  static_assert(2 * V <= most_short_runs);
  for (int r = 0; r < 2 * V; ++r) place[r] = runs.at(std::min<std::int64_t>(r, count - 1));
  ChunkTree<R * V> tree;
  Vec acc[R * V];
  for (Vec& chain : acc) chain = Vec::zero();
  std::int64_t left = chunk;
  std::int64_t n = start / positions, p = start % positions, y = p / g.ow, x = p % g.ow;
  for (; terms > 0; ++n, p = y = 0) {
    for (int r = 0; r < R; ++r) row[r] = grad + (n * g.o + std::min<std::int64_t>(r, rows - 1)) * positions;
    for (; y < g.oh && terms > 0; ++y, x = 0) {
      std::int64_t at = n * frames.floats() + y * frames.step_h * frames.line() + x * step;
      while (x < g.ow && terms > 0) {
        if (left == 0) {
          tree.push(acc);
          for (Vec& chain : acc) chain = Vec::zero();
          left = chunk;
        }
        const std::int64_t end = std::min(g.ow, x + std::min(left, terms));
        left -= end - x;
        terms -= end - x;
        for (; x < end; ++x, ++p, at += step) {
          Vec columns[V];
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) columns[v] = Vec::load_halves(place[2 * v] + at, place[2 * v + 1] + at);
#pragma GCC unroll 6
          for (int r = 0; r < R; ++r) {
            const Vec value = Vec::set1(row[r][p]);
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) acc[r * V + v] = fma(value, columns[v], acc[r * V + v]);
          }
        }
      }
    }
  }
  tree.finish(acc);
  alignas(64) float lane[2 * V][half];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < V; ++v) canonical(acc[r * V + v]).store(lane[2 * v]);
    for (std::int64_t i = 0; i < count; ++i, out += runs.length) std::copy(lane[i], lane[i] + runs.length, out);
  }
}

inline void short_runs_rows(const float* grad, const RunOperand& runs, std::int64_t count, const Frames& frames, const Geometry& g,
                            std::int64_t start, std::int64_t terms, std::int64_t chunk, std::int64_t rows, float* out) {
  constexpr decltype(&short_runs_tile<1>) tiles[] = {short_runs_tile<1>, short_runs_tile<2>, short_runs_tile<3>, short_runs_tile<4>};
  const auto tile = tiles[(count - 1) / 2];
  for (std::int64_t o = 0; o < rows; o += short_rows)
    tile(grad + o * g.oh * g.ow, runs, count, frames, g, start, terms, chunk, std::min<std::int64_t>(short_rows, rows - o),
         out + o * count * runs.length);
}

}  // namespace repdl::cpu
