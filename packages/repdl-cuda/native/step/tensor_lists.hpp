// Passes over lists of tensors of any sizes: a launch for up to 48 of them.
#pragma once

#include <algorithm>

#include "base/launch.hpp"

namespace repdl::cuda {

constexpr int list_length = 48;  // so that five columns fit into a kernel's arguments
constexpr int list_threads = 256;

// Tensor t of the list has count[t] elements, those of column c at at[c][t].
template <int Columns, class T>
struct Lists {
  T* at[Columns][list_length];
  std::int64_t count[list_length];
};

// A type as a value, for choosing one of several at run time.
template <class T>
struct Type {
  using type = T;
};

// body(lists, t, i) for element i of tensor t: a row of the grid is a tensor. Body is made on the
// device from `options`, once a thread.
template <class Body, class Options, int Columns, class T>
__global__ void __launch_bounds__(list_threads) list_elements(Options options, Lists<Columns, T> lists) {
  const Body body(options);
  const int t = blockIdx.y;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * list_threads;
  for (std::int64_t i = thread_index(); i < lists.count[t]; i += step) body(lists, t, i);
}

// tensors[c][t] is the address of tensor t in column c.
template <class Body, int Columns, class T, class Options>
void for_lists(const char* op, const Options& options, const std::vector<std::vector<Address>>& tensors,
               const Sizes& counts, const Stream& stream) {
  for (std::size_t first = 0; first < counts.size(); first += list_length) {
    const std::size_t length = std::min<std::size_t>(list_length, counts.size() - first);
    Lists<Columns, T> lists{};
    std::int64_t longest = 0;
    for (std::size_t t = 0; t < length; ++t) {
      for (int c = 0; c < Columns; ++c) lists.at[c][t] = out<T>(tensors.at(c).at(first + t));
      lists.count[t] = counts[first + t];
      longest = std::max(longest, counts[first + t]);
    }
    // Few enough blocks that what a thread computes once does not count.
    const std::int64_t blocks =
        std::min<std::int64_t>(ceil_div(longest, list_threads), 8 * multiprocessors(op, stream));
    launch(op, list_elements<Body, Options, Columns, T>, {blocks, static_cast<std::int64_t>(length)}, list_threads, 0,
           stream, options, lists);
  }
}

}  // namespace repdl::cuda
