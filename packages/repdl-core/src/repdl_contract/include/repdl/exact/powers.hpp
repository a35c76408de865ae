// x**p where that is a few operations: the bits of pow.hpp, sooner.
#pragma once

#include <cmath>

#include "repdl/contract/bits.hpp"

namespace repdl::exact {

// x**3 is the sum of two products, both exact, of x with parts of its square.
REPDL_HD inline float cube(float x) {
  const double square = mul(double{x}, double{x});
  const double high = from_bits(to_bits(square) & ~std::uint64_t{0x1fffffff});  // as many bits as a float
  const float result = rounded_sum(mul(high, double{x}), mul(square - high, double{x}));
  return x - x == 0.0f ? result : mul(mul(x, x), x);
}

struct Identity {
  REPDL_HD float operator()(float x) const { return x; }
};
struct Square {
  REPDL_HD float operator()(float x) const { return mul(x, x); }
};
struct Cube {
  REPDL_HD float operator()(float x) const { return cube(x); }
};
struct Inverse {
  REPDL_HD float operator()(float x) const { return 1.0f / x; }
};
struct Root {  // + 0.0f, as the root of -0 is +0 here
  REPDL_HD float operator()(float x) const { return x == -infinity() ? infinity() : std::sqrt(x + 0.0f); }
};

// Calls body(f) with a function f for x -> x**p, but for NaN's bits, if p is one of these.
template <class Body>
inline bool with_plain_power(float p, const Body& body) {
  if (p == 1.0f)
    body(Identity());
  else if (p == 2.0f)
    body(Square());
  else if (p == 3.0f)
    body(Cube());
  else if (p == -1.0f)
    body(Inverse());
  else if (p == 0.5f)
    body(Root());
  else
    return false;
  return true;
}

}  // namespace repdl::exact
