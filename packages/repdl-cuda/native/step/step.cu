// The loop around every optimizer's step, in place (repdl/step/steps.hpp): a launch for up to 48 tensors
// of any sizes.
//
//   for t in tensors, i < count[t]:
//     element(columns of t, i)
#include <algorithm>

#include "base/launch.hpp"
#include "repdl/step/steps.hpp"

namespace repdl::cuda {
namespace {

constexpr int list_length = 48;  // so that five columns fit into a kernel's arguments
constexpr int threads = 256;

// Tensor t of the list has count[t] elements, and its columns.
template <int columns, class T>
struct Lists {
  step::Columns<T, columns> tensor[list_length];
  std::int64_t count[list_length];
};

// A row of the grid is a tensor. The element is made on the device, once a thread.
template <class Element, class Options, class T>
__global__ void __launch_bounds__(threads) update(Options options, Lists<Element::columns, T> lists) {
  const Element element(options);
  const int t = blockIdx.y;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t i = thread_index(); i < lists.count[t]; i += stride) element(lists.tensor[t], i);
}

struct Loop {
  template <class Step, class Element, class T>
  static void run(const Tensors* all, const typename Step::Options& options, const Run& run) {
    const Stream stream = stream_of(run);
    for (std::size_t first = 0; first < all[0].length; first += list_length) {
      const std::size_t length = std::min<std::size_t>(list_length, all[0].length - first);
      Lists<Element::columns, T> lists{};
      std::int64_t longest = 0;
      for (std::size_t t = 0; t < length; ++t) {
        for (int c = 0; c < Element::columns; ++c) lists.tensor[t].at[c] = all[c][first + t].template as<T>();
        lists.count[t] = all[0][first + t].count();
        longest = std::max(longest, lists.count[t]);
      }
      // Few enough blocks that what a thread computes once does not count.
      const std::int64_t blocks =
          std::min<std::int64_t>(ceil_div(longest, threads), 8 * multiprocessors(run.op, stream));
      launch(run.op, update<Element, typename Step::Options, T>, {blocks, static_cast<std::int64_t>(length)}, threads,
             0, stream, options, lists);
    }
  }
};

const AddKernel step_kernels = step::add_steps<Loop>();

}  // namespace
}  // namespace repdl::cuda
