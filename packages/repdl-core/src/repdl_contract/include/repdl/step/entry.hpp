// From an optimizer's step to its kernels: what both backends' loops share.
//
// A step is a struct with
//
//   op                        its name
//   lists                     how many lists of tensors come first in the op's schema
//   Options                   an aggregate of the numbers after them, in the order of the schema
//   Fields                    the types of those numbers
//   choose<T>(options, f)     f(Type<Element>()) with the element class that the options ask for
//
// and an element class, made of Options where rounding is IEEE's, has `columns`, the number of lists that it
// reads and writes, `variant`, which tells those of one step apart, and element(at, i), which updates
// element i of the columns but for the gradients. Lists that the options leave out are empty, and no columns.
#pragma once

#include "repdl/backend.hpp"
#include "repdl/contract/option.hpp"

namespace repdl::step {

// A type as a value.
template <class T>
struct Type {
  using type = T;
};

template <class... T>
struct Fields {};

// The column that no step writes.
constexpr int gradients = 1;

// The memory of one tensor of each list.
template <class T, int count>
struct Columns {
  T* at[count];
};

// Steps that share a header.
template <class... Step>
struct Steps {};

// Loop::run<Step, Element, T>(columns, options, exec) updates all elements.
template <class Loop, class Step, class T, class Lists = std::make_index_sequence<Step::lists>,
          class Numbers = typename Step::Fields>
struct Entry;
template <class Loop, class Step, class T, std::size_t... I, class... Number>
struct Entry<Loop, Step, T, std::index_sequence<I...>, Fields<Number...>> {
  template <std::size_t>
  using List = Tensors;

  static void run(List<I>... lists, Number... numbers, const ExecContext& exec) {
    const typename Step::Options options{numbers...};
    Tensors columns[Step::lists];
    int used = 0;
    for (const Tensors& list : {lists...})
      if (list.length != 0) columns[used++] = list;
    Step::template choose<T>(options, [&](auto element) {
      Loop::template run<Step, typename decltype(element)::type, T>(columns, options, exec);
    });
  }
};

// Enters the steps of the list into the table of this module.
template <class Loop, class... Step>
AddKernel add_steps(Steps<Step...>) {
  (add_kernels<&Entry<Loop, Step, float>::run, &Entry<Loop, Step, double>::run>(Step::op, Layout::lists), ...);
  return {};
}

}  // namespace repdl::step
