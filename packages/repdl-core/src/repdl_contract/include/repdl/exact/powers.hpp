// x**p where that is a few operations: the bits of pow.hpp, sooner.
#pragma once

#include <cmath>
#include <type_traits>

#include "repdl/contract/bits.hpp"

namespace repdl::exact {

// x**3 is the sum of two products, both exact, of x with parts of its square.
REPDL_HD inline float cube(float x) {
  const double square = mul(double{x}, double{x});
  const double high = from_bits(to_bits(square) & ~std::uint64_t{0x1fffffff});  // as many bits as a float
  const float result = rounded_sum(mul(high, double{x}), mul(square - high, double{x}));
  return x - x == 0.0f ? result : mul(mul(x, x), x);
}

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
