// The weight gradient where an image gives few columns in short runs, such as one channel under a
// 5 x 5 kernel: nothing is packed, and all columns of a filter are in registers. Where two runs
// fit a vector, it is half of one and half of the next.
//
//   for o < rows, r < count:  (N, O, P), padded NHWC images -> (O, count, length)
//     dW[o, r, :] = dot over k = (n, y, x), `terms` of them from `start` on, of G[o, k] and X[k, r, :]
#pragma once

#include <utility>

#include "gemm/chunk_tree.hpp"
#include "conv/padded_nhwc.hpp"

namespace repdl::cpu {

constexpr int max_register_vectors = 8;

// How the runs lie in vectors.
struct RegisterShape {
  std::int64_t count, length;

  bool halves() const { return 2 * length <= Vec::width; }
  std::int64_t of_run() const { return (length + Vec::width - 1) / Vec::width; }
  std::int64_t vectors() const { return halves() ? (count + 1) / 2 : count * of_run(); }
  bool fits() const { return vectors() <= max_register_vectors; }
  // Where a run starts in the columns of all vectors.
  std::int64_t place(std::int64_t run) const { return halves() ? run * (Vec::width / 2) : run * of_run() * Vec::width; }
};

// Rows o that share what is read: their chains, a value each and a vector of columns fit the registers.
constexpr int max_register_rows(int vectors) { return std::min(6, (Vec::registers - 1) / (vectors + 1)); }

// V vectors of runs for R rows, of which `rows` exist; grad from the first one on.
template <int V, int R, bool halves>
void register_grad_weight_tile(const float* grad, const RunLayout& runs, const RegisterShape& shape,
                               const PaddedNhwc& images, const Geometry& g, std::int64_t start, std::int64_t terms,
                               std::int64_t chunk, std::int64_t rows, float* out) {
  REPDL_ROUTE(halves ? "columns in registers, two runs a vector" : "columns in registers", V, R);
  const std::int64_t positions = g.oh * g.ow, step = images.step_w * images.pitch;
  const float *place[V], *second[V];  // of a vector, and of its second half
  const float* row[R];
  for (int v = 0; v < V; ++v) {
    const std::int64_t vectors = shape.of_run();
    place[v] = images.data + (halves ? runs.start(2 * v) : runs.start(v / vectors) + v % vectors * Vec::width);
    second[v] = images.data + runs.start(std::min<std::int64_t>(
                                  2 * v + 1, shape.count - 1));  // the last one twice, where there is no other
  }
  ChunkTree<R * V> tree;
  Vecs<R * V> acc;
  acc.clear();
  std::int64_t left = chunk;
  std::int64_t n = start / positions, p = start % positions, y = p / g.ow, x = p % g.ow;
  for (; terms > 0; ++n, p = y = 0) {
    for (int r = 0; r < R; ++r) row[r] = grad + (n * g.o + std::min<std::int64_t>(r, rows - 1)) * positions;
    for (; y < g.oh && terms > 0; ++y, x = 0) {
      std::int64_t at = n * images.floats() + y * images.step_h * images.line() + x * step;
      while (x < g.ow && terms > 0) {
        if (left == 0) {
          tree.push(acc);
          acc.clear();
          left = chunk;
        }
        const std::int64_t end = std::min(g.ow, x + std::min(left, terms));
        left -= end - x;
        terms -= end - x;
        for (; x < end; ++x, ++p, at += step) {
          Vec value[R];
#pragma GCC unroll 6
          for (int r = 0; r < R; ++r) value[r] = Vec::set1(row[r][p]);
#pragma GCC unroll 8
          for (int v = 0; v < V; ++v) {
            const Vec columns =
                in_register(halves ? Vec::load_halves(place[v] + at, second[v] + at) : Vec::load(place[v] + at));
#pragma GCC unroll 6
            for (int r = 0; r < R; ++r) acc[r * V + v] = fma(value[r], columns, acc[r * V + v]);
          }
        }
      }
    }
  }
  acc = tree.finish(acc);
  alignas(64) float columns[V * Vec::width];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < V; ++v) canonical(acc[r * V + v]).store(columns + v * Vec::width);
    for (std::int64_t i = 0; i < shape.count; ++i, out += shape.length)
      std::copy_n(columns + shape.place(i), shape.length, out);
  }
}

using RegisterTile = decltype(&register_grad_weight_tile<1, 1, false>);

template <int V, int R>
constexpr RegisterTile register_grad_weight_kernel(bool halves) {
  if constexpr (R <= max_register_rows(V))
    return halves ? &register_grad_weight_tile<V, R, true> : &register_grad_weight_tile<V, R, false>;
  else
    return nullptr;
}

template <int V, int... R>
RegisterTile register_grad_weight_of_rows(std::int64_t rows, bool halves, std::integer_sequence<int, R...>) {
  constexpr RegisterTile whole[] = {register_grad_weight_kernel<V, R + 1>(false)...},
                         half[] = {register_grad_weight_kernel<V, R + 1>(true)...};
  return halves ? half[rows - 1] : whole[rows - 1];
}

template <int... V>
RegisterTile register_grad_weight_of(std::int64_t vectors, std::int64_t rows, bool halves,
                                     std::integer_sequence<int, V...>) {
  const RegisterTile tiles[] = {
      register_grad_weight_of_rows<V + 1>(rows, halves, std::make_integer_sequence<int, max_register_rows(1)>())...};
  return tiles[vectors - 1];
}

inline void register_grad_weight(const float* grad, const RunLayout& runs, const RegisterShape& shape,
                                 const PaddedNhwc& images, const Geometry& g, std::int64_t start, std::int64_t terms,
                                 std::int64_t chunk, std::int64_t rows, float* out) {
  const std::int64_t most = max_register_rows(static_cast<int>(shape.vectors())), panels = (rows + most - 1) / most;
  const std::int64_t step = (rows + panels - 1) / panels;
  const auto tile = register_grad_weight_of(shape.vectors(), step, shape.halves(),
                                            std::make_integer_sequence<int, max_register_vectors>());
  for (std::int64_t o = 0; o < rows; o += step)
    tile(grad + o * g.oh * g.ow, runs, shape, images, g, start, terms, chunk, std::min(step, rows - o),
         out + o * shape.count * shape.length);
}

}  // namespace repdl::cpu
