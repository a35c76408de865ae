// The loop around every function of a recurrent cell (repdl/cell/cells.hpp).
//
//   for r < rows, e < size:
//     out[:, r, e] = f(in[:, r, e])
#include <algorithm>

#include "base/routes.hpp"
#include "base/threads.hpp"
#include "exact/sigmoid_vec.hpp"
#include "exact/tanh_vec.hpp"
#include "repdl/cell/entry.hpp"
#include "simd/row_loop.hpp"
#include "simd/vectors.hpp"

namespace repdl::cpu {
namespace {

// Elements first to first + n of a row.
template <template <class> class F, class Values>
void cell_row(const Values& values, std::int64_t row, std::int64_t first, std::int64_t n) {
  std::array<const float*, Values::inputs> in;
  std::array<float*, Values::outputs> out;
  for (int v = 0; v < Values::inputs; ++v) in[v] = values.in[v] + row * values.in_row[v] + first;
  for (int v = 0; v < Values::outputs; ++v) out[v] = values.out[v] + row * values.out_row[v] + first;
  const auto one = [=](std::int64_t i, auto part) __attribute__((always_inline)) {
    Vec x[Values::inputs], y[Values::outputs];
    for (int v = 0; v < Values::inputs; ++v) x[v] = part.load(in[v] + i);
    F<Vec>()(x, y);
    for (int v = 0; v < Values::outputs; ++v) part.store(out[v] + i, canonical(y[v]));
  };
  if constexpr (std::is_same_v<Drafts, Vec>) {
    row_loop(n, one);
  } else {
    const auto both = [=](std::int64_t i) __attribute__((always_inline)) {
      Drafts x[2][Values::inputs], y[2][Values::outputs];
      bool decided = true;
      for (int k = 0; k < 2; ++k) {
        for (int v = 0; v < Values::inputs; ++v) x[k][v] = drafted(Vec::load(in[v] + i + k * Vec::width));
        F<Drafts>()(x[k], y[k]);
        for (int v = 0; v < Values::outputs; ++v) decided &= all(y[k][v].decided);
      }
      if (!decided) return false;
      for (int k = 0; k < 2; ++k)
        for (int v = 0; v < Values::outputs; ++v) canonical(y[k][v].value).store(out[v] + i + k * Vec::width);
      return true;
    };
    row_loop(n, both, one);
  }
}

struct CellLoop {
  template <template <class> class F>
  static void run(const cell::Values<F<float>>& values, const Run& run) {
    REPDL_ROUTE(F<float>::op);
    constexpr std::int64_t grain = 1 << 11;  // elements worth a thread
    parallel_for(values.rows * values.size, grain, run.threads, [&](std::int64_t begin, std::int64_t end) {
      while (begin < end) {
        const std::int64_t first = begin % values.size, n = std::min(end - begin, values.size - first);
        cell_row<F>(values, begin / values.size, first, n);
        begin += n;
      }
    });
  }
};

const AddKernel cell_kernels = cell::add_cells<CellLoop>(cell::Cells());

}  // namespace
}  // namespace repdl::cpu
