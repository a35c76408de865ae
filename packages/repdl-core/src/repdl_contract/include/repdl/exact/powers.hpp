// x**p where that is a few operations: the bits of pow.hpp, sooner.
#pragma once

#include <cmath>
#include <type_traits>

#include "repdl/contract/bits.hpp"

namespace repdl::exact {

// x**3 by doubles. It is rounded twice there, to a double and to a float, and the second time never from a midpoint
// of two floats that the first has made: tools/exact/prove.py has tried all arguments.
REPDL_HD inline float cube(float x) { return static_cast<float>(mul(mul(double{x}, double{x}), double{x})); }

template <class T>
struct Identity {
  REPDL_HD T operator()(T x) const { return x; }
};
template <class T>
struct Square {
  REPDL_HD T operator()(T x) const { return mul(x, x); }
};
struct Cube {
  REPDL_HD float operator()(float x) const { return cube(x); }
};
template <class T>
struct Inverse {
  REPDL_HD T operator()(T x) const { return T(1) / x; }
};
template <class T>
struct Root {  // + 0, as the root of -0 is +0 here
  REPDL_HD T operator()(T x) const { return x == -infinity() ? static_cast<T>(infinity()) : std::sqrt(x + T(0)); }
};

// Calls body(f) with a function f for x -> x**p, but for NaN's bits, if p is one of these; of floats the cube too.
template <class T, class Body>
inline bool with_plain_power(T p, const Body& body) {
  if (p == T(1))
    body(Identity<T>());
  else if (p == T(2))
    body(Square<T>());
  else if (p == T(-1))
    body(Inverse<T>());
  else if (p == T(0.5))
    body(Root<T>());
  else if constexpr (std::is_same_v<T, float>) {
    if (p != 3.0f) return false;
    body(Cube());
  } else {
    return false;
  }
  return true;
}

}  // namespace repdl::exact
