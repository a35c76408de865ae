// The loop around every function of a recurrent cell (repdl/cell/cells.hpp).
//
//   for r < rows, e < size:
//     out[:, r, e] = f(in[:, r, e])
#include <algorithm>

#include "base/routes.hpp"
#include "base/threads.hpp"
#include "cell/cell_row.hpp"
#include "repdl/cell/entry.hpp"

namespace repdl::cpu {
namespace {

// Elements first to first + n of a row.
template <template <class> class F, class T>
void part_of_row(const cell::Values<F<T>>& values, std::int64_t row, std::int64_t first, std::int64_t n) {
  CellRow<F<T>> at;
  for (std::size_t v = 0; v < at.in.size(); ++v) at.in[v] = values.in[v] + row * values.in_row[v] + first;
  for (std::size_t v = 0; v < at.out.size(); ++v) at.out[v] = values.out[v] + row * values.out_row[v] + first;
  cell_row<F>(at, n);
}

struct CellLoop {
  template <template <class> class F, class T>
  static void run(const cell::Values<F<T>>& values, const ExecContext& exec) {
    REPDL_ROUTE(F<T>::op, sizeof(T));
    constexpr std::int64_t grain = 1 << 11;  // elements worth a thread
    parallel_for(values.rows * values.size, grain, exec.threads, [&](std::int64_t begin, std::int64_t end) {
      while (begin < end) {
        const std::int64_t first = begin % values.size, n = std::min(end - begin, values.size - first);
        part_of_row<F>(values, begin / values.size, first, n);
        begin += n;
      }
    });
  }
};

const AddKernel cell_kernels = cell::add_cells<CellLoop>(cell::Cells());

}  // namespace
}  // namespace repdl::cpu
