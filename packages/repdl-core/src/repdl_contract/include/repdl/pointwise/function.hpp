// What a pointwise function is: a template on the type of an element, which the backends put into loops.
//
//   template <class T>
//   struct Add : Arithmetic {
//     static constexpr auto op = "add";
//     REPDL_HD T operator()(T a, T b) const { return a + b; }
//   };
//
// T is float or double, or, for what calls exact functions, a vector of a CPU. The parameters of
// operator() are the tensors of the op's schema; std::uint8_t for a tensor of bools. Options, the numbers that
// follow in the schema, are rounded to T once by the constructor:
//
//     using Options = std::tuple<double>;
//     REPDL_HD explicit LeakyRelu(double negative_slope) : slope(constant<T>(negative_slope)) {}
//
// A text is made a bool by `flag`, a static function, which a constructor takes too.
// Products are mul() or fma(): no compiler may fuse another. A NaN of the result becomes the one NaN in
// the loop. The functions are listed in functions.hpp.
#pragma once

#include <cmath>
#include <string_view>
#include <tuple>

#include "repdl/contract/arithmetic.hpp"

namespace repdl::pointwise {

// Kinds: what T may be besides float and double, and what a loop should know of the cost.
struct Arithmetic {  // compilers vectorise it
  static constexpr bool vectors = false, vectors_of_doubles = false, costly = false;
};
struct Vectors {  // vectors: calls exact functions
  static constexpr bool vectors = true, vectors_of_doubles = true, costly = true;
};
struct Scalars {  // vectors of doubles: calls exact functions that have no others; PathsOf says which has two paths
  static constexpr bool vectors = false, vectors_of_doubles = true, costly = true;
};
struct Exact : Vectors {};  // one exact function, whose NaN is the one NaN already

// A number as a T, rounded once.
template <class T>
struct Constant {
  REPDL_HD static T of(double value) { return static_cast<T>(value); }
};
template <class T>
REPDL_HD inline T constant(double value) {
  return Constant<T>::of(value);
}

REPDL_HD inline float select(bool condition, float a, float b) { return condition ? a : b; }
REPDL_HD inline double select(bool condition, double a, double b) { return condition ? a : b; }

template <class F, class = void>
struct OptionsOf {
  using type = std::tuple<>;
};
template <class F>
struct OptionsOf<F, std::void_t<typename F::Options>> {
  using type = typename F::Options;
};

// F::Paths: of one exact function with two paths (exact/two_paths.hpp), so that a loop can take the fast one first.
template <class F, class = void>
struct PathsOf {
  using type = void;
};
template <class F>
struct PathsOf<F, std::void_t<typename F::Paths>> {
  using type = typename F::Paths;
};

template <class F>
struct Operands;
template <class F, class T, class... Parameters>
struct OperandsOf {
  static constexpr int count = sizeof...(Parameters);
  template <int k>
  using at = std::tuple_element_t<k, std::tuple<Parameters...>>;
};
template <class F, class T, class... Parameters>
OperandsOf<F, T, Parameters...> operands_of(T (F::*)(Parameters...) const);

// The parameters of F::operator(): how many, and the type of each.
template <class F>
using Parameters = decltype(operands_of(&F::operator()));

template <template <class> class... F>
struct List {};

}  // namespace repdl::pointwise
