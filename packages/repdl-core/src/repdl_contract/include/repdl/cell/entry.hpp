// The functions of cells as kernels: a backend brings the loop, and has them all.
#pragma once

#include <iterator>

#include "repdl/backend.hpp"
#include "repdl/cell/cells.hpp"

namespace repdl::cell {

// Where the values of an element lie: value v of element e in row r at in[v] + r * in_row[v] + e.
template <class F>
struct Values;
template <template <class> class F, class T>
struct Values<F<T>> {
  static constexpr int inputs = total(F<T>::inputs), outputs = total(F<T>::outputs);

  const T* in[inputs];
  T* out[outputs];
  std::int64_t in_row[inputs], out_row[outputs];
  std::int64_t rows, size;
};

// F as a function of tensors, row-major: inputs, outputs, where to run.
template <class Loop, template <class> class F, class T,
          class = std::make_index_sequence<std::size(F<float>::inputs) + std::size(F<float>::outputs)>>
struct Entry;
template <class Loop, template <class> class F, class T, std::size_t... I>
struct Entry<Loop, F, T, std::index_sequence<I...>> {
  using Function = F<T>;

  template <std::size_t>
  using Each = const Tensor&;

  static void run(Each<I>... tensors, const ExecContext& exec) {
    const Tensor* all[] = {&tensors...};
    Values<Function> values;
    const Tensor& first = *all[0];
    values.size = first.size[first.dims - 1] / Function::inputs[0];
    if (first.count() == 0) return;
    values.rows = first.count() / first.size[first.dims - 1];
    place(all, Function::inputs, values.size, values.in, values.in_row);
    place(all + std::size(Function::inputs), Function::outputs, values.size, values.out, values.out_row);
    Loop::template run<F, T>(values, exec);
  }

  template <class Counts, class Address, int n>
  static void place(const Tensor* const* tensors, const Counts& counts, std::int64_t size, Address* (&at)[n],
                    std::int64_t (&row)[n]) {
    int v = 0;
    for (const int count : counts) {
      T* const data = (*tensors++)->template as<T>();
      for (int j = 0; j < count && v < n; ++j, ++v) {
        at[v] = data + j * size;
        row[v] = count * size;
      }
    }
  }
};

// Enters every function of the list into the table of this module, with
//     template <template <class> class F, class T>
//     static void Loop::run(const Values<F<T>>& values, const ExecContext& exec);
// for its loop; there is at least one element.
template <class Loop, template <class> class... F>
AddKernel add_cells(pointwise::List<F...>) {
  (add_kernels<&Entry<Loop, F, float>::run, &Entry<Loop, F, double>::run>(F<float>::op, Layout::rows), ...);
  return {};
}

}  // namespace repdl::cell
