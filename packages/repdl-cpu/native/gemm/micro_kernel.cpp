#include "gemm/micro_kernel.hpp"

#include <utility>

#include "base/routes.hpp"

namespace repdl::cpu {
namespace {

// c[j * ldc + i] = tile[i * stride + j] for `rows` by `columns` elements; rows up to a multiple
// of Vec::width may be read.
[[gnu::noinline]] void store_transposed(const float* tile, std::int64_t stride, int rows, int columns, float* c,
                                        std::int64_t ldc) {
  constexpr int W = Vec::width;
  alignas(64) float transposed[W * W];
  for (int j = 0; j < columns; j += W)
    for (int i = 0; i < rows; i += W) {
      transpose(tile + i * stride + j, stride, transposed, W);
      for (int k = 0; k < W && j + k < columns; ++k) {
        const Vec row = Vec::load(transposed + k * W);
        float* place = c + (j + k) * ldc + i;
        if (rows - i >= W)
          row.store(place);
        else
          row.store(place, rows - i);
      }
    }
}

template <int R, int V, Unpacked unpacked>
void run(const MicroTile& t) {
  REPDL_ROUTE(unpacked == Unpacked::a   ? "tile, A in place"
              : unpacked == Unpacked::b ? "tile, B in place"
                                        : "tile",
              R, V);
  if (t.resume) REPDL_ROUTE("tile: chain resumed", R);
  if (t.last && t.transposed) REPDL_ROUTE("tile: transposed", R);
  constexpr int width = Vec::width, line = 16;  // floats of a line of the cache
  Vec acc[R][V];
  const auto each = [](const auto& f) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) f(i, j);
  };
  if (t.resume)
    each([&](int i, int j) { acc[i][j] = Vec::load(t.chain + (i * V + j) * width); });
  else
    each([&](int i, int j) { acc[i][j] = Vec::zero(); });

  // Partial sums of the tree: those of the piece in L1, the others in memory.
  constexpr int whole = (R + width - 1) / width * width;  // rows that store_transposed reads
  alignas(64) float local[max_local_levels][whole * V * width];
  const auto level = [&](int l) {
    return l < t.local_levels ? local[l] : t.level + (l - t.local_levels) * t.level_stride;
  };
  const auto join = [&](int l) __attribute__((always_inline)) {
    if (l >= t.local_levels) REPDL_ROUTE("tile: tree of several pieces");
    const float* left = level(l);
    each([&](int i, int j) { acc[i][j] = Vec::load(left + (i * V + j) * width) + acc[i][j]; });
  };
  const auto store = [&](float* place) { each([&](int i, int j) { acc[i][j].store(place + (i * V + j) * width); }); };

  if (t.last && t.transposed)  // lines far apart, which are fetched while the products are made
    for (int j = 0; j < t.columns; ++j) __builtin_prefetch(t.c + j * t.ldc, 1);

  const float* a = t.a;
  const float* b = t.b;
  const std::int64_t* offset = t.offset;
  std::int64_t index = t.index;
  for (std::int64_t left = t.kc;;) {
    const std::int64_t terms = left < t.chunk ? left : t.chunk;
    for (std::int64_t k = 0; k < terms; ++k) {
      const float* b_row = unpacked == Unpacked::b ? b + offset[k] : b + k * t.b_width;
      const float* a_row = unpacked == Unpacked::a ? a + offset[k] : a + k * t.mr;
      if (unpacked == Unpacked::b)  // rows far apart in memory, which no hardware foresees
        for (int j = 0; j < V * width; j += line) __builtin_prefetch(b + offset[k + prefetch_ahead] + j);
      if (unpacked == Unpacked::a) __builtin_prefetch(a_row + 4 * R, 0, 2);  // a later tile's, into L2
      Vec row[V];
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) row[j] = Vec::load(b_row + j * width);
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        const Vec x = Vec::set1(a_row[i]);
#pragma GCC unroll 4
        for (int j = 0; j < V; ++j) acc[i][j] = fma(x, row[j], acc[i][j]);
      }
    }
    if (unpacked != Unpacked::a) a += terms * t.mr;
    if (unpacked != Unpacked::b) b += terms * t.b_width;
    if (unpacked != Unpacked::none) offset += terms;
    left -= terms;
    const bool more = left > 0;
    if (!more && !t.chunk_done) return store(t.chain);
    const bool last = !more && t.last;
    const int waits = tree_join(index, last, join);
    if (last) break;
    store(level(waits));
    if (!more) return;
    ++index;
    each([&](int i, int j) { acc[i][j] = Vec::zero(); });
  }

  if (t.row_bias) each([&](int i, int j) { acc[i][j] = acc[i][j] + Vec::set1(t.row_bias[i]); });
  if (t.column_bias) {
    Vec bias[V];
    for (int j = 0; j < V; ++j)
      bias[j] = t.columns - j * width >= width ? Vec::load(t.column_bias + j * width)
                                               : Vec::load(t.column_bias + j * width, t.columns - j * width);
    each([&](int i, int j) { acc[i][j] = acc[i][j] + bias[j]; });
  }
  if (t.transposed) {
    each([&](int i, int j) { canonical(acc[i][j]).store(local[0] + (i * V + j) * width); });
    store_transposed(local[0], V * width, R, t.columns, t.c, t.ldc);
  } else if (t.columns == V * width) {
    each([&](int i, int j) { canonical(acc[i][j]).store(t.c + i * t.ldc + j * width); });
  } else {
    each([&](int i, int j) {
      const int left = t.columns - j * width;
      if (left >= width)
        canonical(acc[i][j]).store(t.c + i * t.ldc + j * width);
      else
        canonical(acc[i][j]).store(t.c + i * t.ldc + j * width, left);
    });
  }
}

template <int R, int V, Unpacked unpacked>
constexpr MicroKernel choose() {
  if constexpr (V <= max_vectors(R))
    return &run<R, V, unpacked>;
  else
    return nullptr;
}

struct KernelTable {
  MicroKernel at[max_rows][4];
};

template <Unpacked p, int... R>
constexpr KernelTable make_kernel_table(std::integer_sequence<int, R...>) {
  return {{{choose<R + 1, 1, p>(), choose<R + 1, 2, p>(), choose<R + 1, 3, p>(), choose<R + 1, 4, p>()}...}};
}

template <Unpacked p>
constexpr KernelTable kernel_table = make_kernel_table<p>(std::make_integer_sequence<int, max_rows>{});

}  // namespace

MicroKernel micro_kernel(int rows, int vectors, Unpacked unpacked) {
  const KernelTable& chosen = unpacked == Unpacked::a   ? kernel_table<Unpacked::a>
                              : unpacked == Unpacked::b ? kernel_table<Unpacked::b>
                                                        : kernel_table<Unpacked::none>;
  return chosen.at[rows - 1][vectors - 1];
}

}  // namespace repdl::cpu
