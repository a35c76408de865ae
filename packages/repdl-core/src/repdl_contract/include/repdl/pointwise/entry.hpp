// The pointwise functions as kernels: a backend brings the loop, and has them all.
#pragma once

#include <array>

#include "repdl/backend.hpp"
#include "repdl/pointwise/functions.hpp"

namespace repdl::pointwise {

template <class Loop, template <class> class F, class T, class Operands, class Options>
struct Entry;

// F on elements of type T as a function of tensors: operands, options, the output, where to run.
template <class Loop, template <class> class F, class T, std::size_t... I, class... Options>
struct Entry<Loop, F, T, std::index_sequence<I...>, std::tuple<Options...>> {
  template <std::size_t>
  using Operand = const Tensor&;

  static void run(Operand<I>... operands, Options... options, const Tensor& output, const ExecContext& exec) {
    if (output.count() == 0) return;
    Loop::template run<F, T>(std::array<const Tensor*, sizeof...(I)>{&operands...}, output, exec, options...);
  }
};

template <class Loop, template <class> class F, class T>
void add_function() {
  using Operands = std::make_index_sequence<Parameters<F<T>>::count>;
  add_kernel<&Entry<Loop, F, T, Operands, typename OptionsOf<F<T>>::type>::run>(F<T>::op, dtype_of<T>, Loop::layout);
}

// Enters every function of the list into the table of this module, with
//     template <template <class> class F, class T, std::size_t N, class... Options>
//     static void Loop::run(const std::array<const Tensor*, N>& operands, const Tensor& output,
//                           const ExecContext& exec,
//                           const Options&... options);
// for its loop, and `Loop::layout`: strided, or in_place. Operands broadcast to the output, which has no gaps
// (pass.hpp).
template <class Loop, template <class> class... F>
AddKernel add_functions(List<F...>) {
  ((add_function<Loop, F, float>(), add_function<Loop, F, double>()), ...);
  return {};
}

}  // namespace repdl::pointwise
