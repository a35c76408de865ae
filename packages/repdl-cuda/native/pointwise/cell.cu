// The loop around every function of a recurrent cell (repdl/cell/cells.hpp).
//
//   for r < rows, e < size:
//     out[:, r, e] = f(in[:, r, e])
#include "base/launch.hpp"
#include "repdl/cell/entry.hpp"

namespace repdl::cuda {
inline namespace cell_cu {

constexpr int threads = 256;

template <class F, class T>
__global__ void __launch_bounds__(threads) cell_elements(cell::Values<F> values) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= values.rows * values.size) return;
  const std::int64_t row = i / values.size, e = i % values.size;
  T x[cell::Values<F>::inputs], y[cell::Values<F>::outputs];
#pragma unroll
  for (int v = 0; v < cell::Values<F>::inputs; ++v) x[v] = values.in[v][row * values.in_row[v] + e];
  F()(x, y);
#pragma unroll
  for (int v = 0; v < cell::Values<F>::outputs; ++v) values.out[v][row * values.out_row[v] + e] = canonical(y[v]);
}

struct CellLoop {
  template <template <class> class F, class T>
  static void run(const cell::Values<F<T>>& values, const ExecContext& exec) {
    const std::int64_t blocks = ceil_div(values.rows * values.size, threads);
    launch(exec.op, cell_elements<F<T>, T>, {blocks}, threads, 0, stream_of(exec), values);
  }
};

const AddKernel cell_kernels = cell::add_cells<CellLoop>(cell::Cells());

}  // namespace cell_cu
}  // namespace repdl::cuda
