#include "micro_kernel.hpp"

#include <utility>

namespace repdl::cpu {
namespace {

template <int R, int V>
void run(const MicroTile& t) {
  constexpr int width = Vec::width;
  Vec acc[R][V];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j)
      acc[i][j] = t.resume ? Vec::load(t.chain + (i * V + j) * width) : Vec::zero();

  // Partial sums of the tree: those of the piece here, the others in memory of their own.
  alignas(64) float local[max_local_levels][R * V * width];
  const auto level = [&](int l) { return l < t.local_levels ? local[l] : t.level + (l - t.local_levels) * t.level_stride; };
  const auto join = [&](int l) {
    const float* left = level(l);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) acc[i][j] = Vec::load(left + (i * V + j) * width) + acc[i][j];
  };
  const auto store = [&](float* place) {
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) acc[i][j].store(place + (i * V + j) * width);
  };

  const float* a = t.a;
  const float* b = t.b;
  std::int64_t index = t.index;
  for (std::int64_t left = t.kc;;) {
    const std::int64_t terms = left < t.chunk ? left : t.chunk;
    for (std::int64_t k = 0; k < terms; ++k, a += t.mr, b += t.b_width) {
      Vec row[V];
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) row[j] = Vec::load(b + j * width);
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        const Vec x = Vec::set1(a[i]);
#pragma GCC unroll 4
        for (int j = 0; j < V; ++j) acc[i][j] = fma(x, row[j], acc[i][j]);
      }
    }
    left -= terms;
    const bool more = left > 0;
    if (!more && !t.chunk_done) return store(t.chain);
    // Join with complete left siblings: those of the trailing one bits, or of all one bits
    // after the last chunk.
    const bool last = !more && t.last;
    int l = 0;
    for (; last ? (index >> l) != 0 : (index >> l) & 1; ++l)
      if ((index >> l) & 1) join(l);
    if (last) break;
    store(level(l));
    if (!more) return;
    ++index;
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) acc[i][j] = Vec::zero();
  }

#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      Vec result = acc[i][j];
      const int left = t.columns - j * width;
      if (t.row_bias) result = result + Vec::set1(t.row_bias[i]);
      if (t.column_bias)
        result = result + (left >= width ? Vec::load(t.column_bias + j * width)
                                         : Vec::load(t.column_bias + j * width, left));
      float* c = t.c + i * t.ldc + j * width;
      if (left >= width)
        canonical(result).store(c);
      else
        canonical(result).store(c, left);
    }
}

template <int R, int V>
constexpr MicroKernel choose() {
  if constexpr (V <= max_vectors(R))
    return &run<R, V>;
  else
    return nullptr;
}

template <int... R>
constexpr auto make_table(std::integer_sequence<int, R...>) {
  struct Table {
    MicroKernel at[sizeof...(R)][4];
  };
  return Table{{{choose<R + 1, 1>(), choose<R + 1, 2>(), choose<R + 1, 3>(), choose<R + 1, 4>()}...}};
}

constexpr auto table = make_table(std::make_integer_sequence<int, max_rows>{});

}  // namespace

MicroKernel micro_kernel(int rows, int vectors) { return table.at[rows - 1][vectors - 1]; }

}  // namespace repdl::cpu
