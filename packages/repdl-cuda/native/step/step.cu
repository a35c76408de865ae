// The loop around every optimizer's step, in place (repdl/step/steps.hpp): a launch for up to 48 tensors
// of any sizes.
//
//   for t in tensors, i < count[t]:
//     element(columns of t, i)
#include <algorithm>

#include "base/launch.hpp"
#include "base/rounded_on_host.hpp"
#include "repdl/step/steps.hpp"

namespace repdl::cuda {
inline namespace step_cu {

constexpr int list_length = 48;         // so that five columns fit into a kernel's arguments
constexpr int threads = 256, each = 4;  // elements a thread

// Tensor t of the list has count[t] elements, and its columns.
template <int columns, class T>
struct Lists {
  step::Columns<T, columns> tensor[list_length];
  std::int64_t count[list_length];
};

// A row of the grid is a tensor. All loads come before the stores, which may be to the same memory for all that a
// compiler knows.
template <class Element, class T>
__global__ void __launch_bounds__(threads) update(Element element, Lists<Element::columns, T> lists) {
  constexpr int columns = Element::columns;
  const step::Columns<T, columns> tensor = lists.tensor[blockIdx.y];
  const std::int64_t count = lists.count[blockIdx.y], tile = threads * each, stride = gridDim.x * tile;
  for (std::int64_t first = blockIdx.x * tile + threadIdx.x; first < count; first += stride) {
    if (first >= stride) REPDL_ROUND("step: elements of a thread");
    T values[columns][each];
    step::Columns<T, columns> here;
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      here.at[c] = values[c];
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const std::int64_t i = first + j * threads;
        values[c][j] = i < count ? tensor.at[c][i] : T(0);
      }
    }
#pragma unroll
    for (int j = 0; j < each; ++j) element(here, j);
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      if (c == step::gradients) continue;
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const std::int64_t i = first + j * threads;
        if (i < count) tensor.at[c][i] = values[c][j];
      }
    }
  }
}

struct Loop {
  template <class Step, class Element, class T>
  static void run(const Tensors* all, const typename Step::Options& options, const ExecContext& exec) {
    const Stream stream = stream_of(exec);
    const auto element = rounded_on_host<Element>(options);
    for (std::size_t first = 0; first < all[0].length; first += list_length) {
      if (first > 0) REPDL_ROUND("step: lists of tensors");
      const std::size_t length = std::min<std::size_t>(list_length, all[0].length - first);
      Lists<Element::columns, T> lists{};
      std::int64_t longest = 0;
      for (std::size_t t = 0; t < length; ++t) {
        for (int c = 0; c < Element::columns; ++c) lists.tensor[t].at[c] = all[c][first + t].template as<T>();
        lists.count[t] = all[0][first + t].count();
        longest = std::max(longest, lists.count[t]);
      }
      // Few enough that those of shorter tensors, which find nothing to do, do not count.
      const std::int64_t blocks =
          std::min<std::int64_t>(ceil_div(longest, threads * each), 8 * multiprocessors(exec.op, stream));
      launch(exec.op, update<Element, T>, {blocks, static_cast<std::int64_t>(length)}, threads, 0, stream, element,
             lists);
    }
  }
};

const AddKernel step_kernels = step::add_steps<Loop>();

}  // namespace step_cu
}  // namespace repdl::cuda
